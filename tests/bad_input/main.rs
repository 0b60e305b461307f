//! Every field of every RPC, with everything that should not be in it, against a real engine.
//!
//! The walk is made from the compiled descriptors: a new field or RPC is walked without a line here, and a new RPC without
//! a baseline request fails the test.

#[path = "../rig/mod.rs"]
mod rig;

mod baseline;
mod mutate;
mod raw;

use std::collections::{BTreeMap, BTreeSet};

use orch8_model::Reason;
use orch8_proto::v1;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{baseline::Baseline, mutate::mutations, raw::Raw, rig::Engine};

fn pool() -> DescriptorPool {
    DescriptorPool::decode(orch8_proto::FILE_DESCRIPTOR_SET).expect("descriptors")
}

fn methods() -> Vec<MethodDescriptor> {
    pool()
        .services()
        .filter(|s| s.full_name().starts_with("orch8.v1."))
        .flat_map(|s| s.methods().collect::<Vec<_>>())
        .collect()
}

fn path_of(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// What every refusal owes its caller. `place`: the names on the way to the field that was spoilt.
fn check(what: &str, place: &[String], refused: &Status) {
    assert!(!matches!(refused.code(), Code::Internal | Code::Unknown), "{what}: {refused:?}");
    let info =
        refused.get_details_error_info().unwrap_or_else(|| panic!("{what}: no ErrorInfo in {refused:?}"));
    assert_eq!(info.domain, "orch8", "{what}");
    assert!(Reason::ALL.iter().any(|r| r.as_str() == info.reason), "{what}: {}", info.reason);
    if refused.code() == Code::InvalidArgument {
        let fields = refused.get_details_bad_request().map(|b| b.field_violations).unwrap_or_default();
        let said =
            fields.iter().map(|f| f.field.as_str()).chain([refused.message()]).collect::<Vec<_>>().join(" ");
        // A message over the limit of all messages is not looked into.
        let whole = said.contains("the request is too large, at most 4194304 bytes");
        let named = whole || place.iter().any(|name| said.contains(name.as_str()));
        assert!(named, "{what}: {place:?} is not named in {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_field_takes_what_it_should_not() {
    let engine = Engine::start().await;
    let baseline = Baseline::make(&engine).await;
    let before = baseline.stored(&engine).await;
    let (mut calls, mut refused, mut started) = (0, BTreeMap::<String, u32>::new(), 0);
    for method in methods() {
        let path = path_of(&method);
        let (key, messages) =
            baseline.request(&path).unwrap_or_else(|| panic!("{path} has no baseline request"));
        let raw = Raw::connect(&engine.address(), &key).await;
        let last = messages.last().expect("a message").clone();
        let message = DynamicMessage::decode(method.input(), last.as_slice()).expect("the baseline");
        for mutation in mutations(&message) {
            let mut stream = messages.clone();
            *stream.last_mut().expect("a message") = mutation.message.encode_to_vec();
            let what = format!("{path} {}: {}", mutation.place.join("."), mutation.what);
            calls += 1;
            match raw.call(&method, stream).await {
                Ok(answer) => {
                    let answer = answer.unwrap_or_default();
                    match method.name() {
                        "StartInstance" => {
                            let one =
                                v1::StartInstanceResponse::decode(answer.as_slice()).expect("an answer");
                            started += usize::from(!one.deduplicated);
                        }
                        "StartInstances" => {
                            let many =
                                v1::StartInstancesResponse::decode(answer.as_slice()).expect("an answer");
                            started += many.items.iter().filter(|one| !one.deduplicated).count();
                        }
                        _ => {}
                    }
                }
                Err(status) => {
                    check(&what, &mutation.place, &status);
                    *refused.entry(path.clone()).or_default() += 1;
                }
            }
        }
    }
    assert!(calls > 600, "{calls} calls");
    let dull: BTreeSet<String> =
        methods().iter().map(path_of).filter(|path| !refused.contains_key(path)).collect();
    let fieldless = ["/orch8.v1.TenantService/WhoAmI", "/orch8.v1.FleetService/DescribeFleet"];
    assert!(dull.iter().all(|path| fieldless.contains(&path.as_str())), "nothing was refused by {dull:?}");
    let after = baseline.stored(&engine).await;
    assert_eq!(after - before, started, "what was refused is not stored");
    let log = engine.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_message_are_the_callers_fault() {
    let engine = Engine::start().await;
    let baseline = Baseline::make(&engine).await;
    for method in methods() {
        let path = path_of(&method);
        let (key, _) = baseline.request(&path).expect("a baseline");
        let raw = Raw::connect(&engine.address(), &key).await;
        // An open-ended varint, a length beyond the end, a group that is never closed.
        for garbage in
            [vec![0xff; 11], vec![0x0a, 0xff, 0xff, 0xff, 0x0f], vec![0x0b], vec![0x0a, 0x02, 0xff, 0xfe]]
        {
            match raw.call(&method, vec![garbage.clone()]).await {
                Ok(_) => assert!(
                    method.input().fields().len() == 0 || garbage == [0x0b],
                    "{path} took {garbage:?}"
                ),
                Err(status) => {
                    let fine = matches!(status.code(), Code::InvalidArgument | Code::NotFound);
                    assert!(fine, "{path} {garbage:?}: {status:?}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_and_missing_are_the_same_bytes() {
    let engine = Engine::start().await;
    let baseline = Baseline::make(&engine).await;
    let other = engine.tenant("other").await;
    let raw = Raw::connect(&engine.address(), &other.key).await;
    for method in methods() {
        let path = path_of(&method);
        let Some((foreign, missing)) = baseline.foreign_and_missing(&path) else { continue };
        let foreign = raw.call(&method, vec![foreign]).await.expect_err("foreign");
        let missing = raw.call(&method, vec![missing]).await.expect_err("missing");
        assert_eq!(foreign.code(), Code::NotFound, "{path}: {foreign:?}");
        assert_eq!(
            (foreign.code(), foreign.message(), foreign.details()),
            (missing.code(), missing.message(), missing.details()),
            "{path}"
        );
    }
}
