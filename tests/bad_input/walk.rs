//! The walk: one field spoilt per call.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    baseline::Baseline,
    census::Census,
    methods,
    mutate::{Mutation, mutations},
    owed, path_of,
    raw::Raw,
    relay::Relay,
    rig::Engine,
};
use prost::Message;

/// RPCs whose requests have no field.
const FIELDLESS: &[&str] = &["/orch8.v1.TenantService/WhoAmI", "/orch8.v1.FleetService/DescribeFleet"];

#[tokio::test(flavor = "multi_thread")]
async fn no_field_takes_what_it_should_not() {
    let engine = Engine::start().await;
    engine.tenant("other").await;
    let baseline = Baseline::make(&engine).await;
    let relay = Relay::to(&engine.address()).await;
    let raw = Raw::connect(&relay.address);
    let mut census = Census::take(&engine).await;
    let (mut calls, mut refused) = (0, BTreeMap::<String, u32>::new());
    // All that is wrong is told at once: the walk is a list of defects, not the first of them.
    let mut wrong = Vec::new();
    for method in methods() {
        let path = path_of(&method);
        let good = baseline.requests(&path);
        assert!(!good.is_empty(), "{path} has no baseline request");
        for request in good {
            match raw.call(&method, &request.key, request.messages.clone()).await {
                Ok(answer) => census.add(method.name(), &answer.unwrap_or_default()),
                Err(status) => {
                    assert!(request.finds_nothing, "the baseline of {path} is refused: {status:?}");
                }
            }
            let last = request.messages.last().expect("a message").as_slice();
            let message = DynamicMessage::decode(method.input(), last).expect("the baseline");
            for mutation in mutations(&message) {
                let mut stream = request.messages.clone();
                *stream.last_mut().expect("a message") = mutation.message.encode_to_vec();
                let what = format!("{path} {}: {}", mutation.place.join("."), mutation.what);
                calls += 1;
                match raw.call(&method, &request.key, stream).await {
                    Ok(answer) => {
                        census.add(method.name(), &answer.unwrap_or_default());
                        if must_be_refused(&method, &mutation) {
                            wrong.push(format!("{what}: was taken"));
                        }
                    }
                    Err(status) => {
                        *refused.entry(path.clone()).or_default() += 1;
                        check(&what, &mutation.place, &status, &mut wrong);
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} defects:\n{}", wrong.len(), wrong.join("\n"));
    assert!(calls > 1_500, "{calls} calls");
    let dull: BTreeSet<String> =
        methods().iter().map(path_of).filter(|path| !refused.contains_key(path)).collect();
    assert!(dull.iter().all(|path| FIELDLESS.contains(&path.as_str())), "nothing was refused by {dull:?}");
    assert_eq!(relay.connections(), 1, "the connection survived every call");
    let differs = Census::take(&engine).await.differs(&census);
    assert!(differs.is_empty(), "stored is what was answered OK, and nothing else: {differs:?}");
    let log = engine.log();
    assert!(!log.contains("panicked"), "{log}");
}

/// Results of a worker are judged one by one: an ill-formed one fails its step and not the stream.
fn must_be_refused(method: &MethodDescriptor, mutation: &Mutation) -> bool {
    let is_signal = mutation.place.iter().any(|name| name == "payload");
    let kind = mutation.what.starts_with("no object") && !is_signal;
    (mutation.never || kind) && !method.is_client_streaming()
}

/// A refusal of one spoilt field. `place`: the names on the way to it.
fn check(what: &str, place: &[String], refused: &Status, wrong: &mut Vec<String>) {
    owed(what, refused);
    // One call at a time has no reason to meet a quota, and a hostile value none to be told "later".
    if matches!(refused.code(), Code::Unavailable | Code::ResourceExhausted) {
        wrong.push(format!("{what}: {refused:?}"));
    }
    if refused.code() == Code::InvalidArgument {
        let fields = refused.get_details_bad_request().map(|b| b.field_violations).unwrap_or_default();
        let said =
            fields.iter().map(|f| f.field.as_str()).chain([refused.message()]).collect::<Vec<_>>().join(" ");
        // A message over the limit of all messages is not looked into.
        let whole = said.contains("the request is too large, at most 4194304 bytes");
        if !whole && !place.iter().any(|name| said.contains(name.as_str())) {
            wrong.push(format!("{what}: not named in {said:?}"));
        }
    }
}
