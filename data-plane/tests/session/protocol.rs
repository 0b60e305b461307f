//! The protocol as a client in any language meets it.

use std::{collections::HashSet, time::Duration, time::Instant};

use orch8_data_plane::session::{Bounds, Census, SessionConfig};
use orch8_engine::{HowLost, Outcome};
use orch8_proto::{
    client::{Code, Failure},
    v1::{self, session_request::Frame as Out, session_response::Frame as In},
};
use serde_json::json;
use tokio::time::sleep;
use tonic::Request;

use crate::rig::{Mood, Node, PATIENCE, Raw, completed, eventually, fast, hello, task};

#[tokio::test(flavor = "multi_thread")]
async fn credit_is_never_exceeded_and_batches_hold_64() {
    let node = Node::start(SessionConfig::default()).await;
    for n in 0..300 {
        node.offer("acme", "charge", json!(n));
    }
    let (mut raw, welcome) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    assert_eq!(welcome.batch_max, 64);
    assert!(raw.is_quiet(Duration::from_millis(50)).await, "no credit, no task");

    let (mut granted, mut got) = (0, 0);
    for tasks in [1, 3, 100, 90] {
        raw.credit(tasks).await;
        granted += tasks as usize;
        while got < granted {
            let dispatch = raw.dispatch().await;
            assert!(dispatch.tasks.len() <= 64);
            got += dispatch.tasks.len();
            raw.received(dispatch.seq).await;
        }
        assert_eq!(got, granted);
        assert!(raw.is_quiet(Duration::from_millis(30)).await);
    }
    // The server's own bound, whatever is granted: 256 in flight.
    raw.credit(1_000_000).await;
    while got < 256 {
        got += raw.dispatch().await.tasks.len();
    }
    assert!(raw.is_quiet(Duration::from_millis(50)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_says_everything_about_itself_and_its_result_is_acknowledged_once_committed() {
    let node = Node::start(fast()).await;
    let id = node.offer("acme", "charge", json!({ "cents": 9_007_199_254_740_993_u64 }));
    let (mut raw, _) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    raw.credit(1).await;
    let dispatch = raw.dispatch().await;
    let [task] = &dispatch.tasks[..] else { panic!("one task") };
    assert_eq!(
        (task.tenant_id.as_str(), task.lane.as_str(), task.handler.as_str()),
        ("acme", "lane", "charge")
    );
    assert_eq!((task.block_path.len(), task.iteration.as_str()), (2, "0.2"));
    assert_eq!(task.delivery(), v1::Delivery::AtLeastOnce);
    assert_eq!(task.lease.as_ref().map(|lease| lease.task_id.clone()), Some(id.to_string()));
    assert_eq!(
        task.params.as_ref().map(|p| p.data.to_vec()),
        Some(br#"{"cents":9007199254740993}"#.to_vec())
    );

    raw.received(dispatch.seq).await;
    raw.say(Out::Results(v1::Results { results: vec![completed(task, "{\"ok\":true}")] })).await;
    let Some(In::ResultAcks(acks)) = raw.next().await else { panic!("acks") };
    assert_eq!(acks.acks[0].status(), v1::ResultStatus::Committed);
    assert_eq!(acks.acks[0].lease, task.lease);
    assert_eq!(node.owner.done(id).await, Outcome::Completed(json!({ "ok": true })));

    raw.say(Out::Results(v1::Results { results: vec![completed(task, "2")] })).await;
    let Some(In::ResultAcks(acks)) = raw.next().await else { panic!("acks") };
    assert_eq!(acks.acks[0].status(), v1::ResultStatus::Duplicate);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_before_the_acknowledgement_sends_the_task_again_at_once_with_a_higher_claim_epoch() {
    let node = Node::start(SessionConfig::default()).await;
    let id = node.owner.offer_until_done(|| task("acme", "charge", json!(1)));
    let (mut raw, _) = Raw::open(&node, "acme", hello("first", &["charge"])).await;
    raw.credit(1).await;
    let first = raw.dispatch().await.tasks.remove(0);
    drop(raw);
    let cut = Instant::now();
    let (mut raw, _) = Raw::open(&node, "acme", hello("second", &["charge"])).await;
    raw.credit(1).await;
    let second = raw.dispatch().await.tasks.remove(0);
    assert!(cut.elapsed() < Duration::from_secs(2), "no lease is waited for: {:?}", cut.elapsed());
    let epoch = |task: &v1::Task| task.lease.as_ref().map(|lease| (lease.attempt, lease.claim_epoch));
    assert_eq!((epoch(&first), epoch(&second)), (Some((0, 1)), Some((0, 2))));
    assert_eq!(node.owner.page(id).lost, [HowLost::NeverStarted]);

    // The first worker may have been alive after all: its result is stale, and says so on a stream that stays.
    raw.say(Out::Results(v1::Results { results: vec![completed(&first, "1"), completed(&second, "2")] }))
        .await;
    let mut statuses = Vec::new();
    while statuses.len() < 2 {
        let Some(In::ResultAcks(acks)) = raw.next().await else { panic!("acks") };
        statuses.extend(acks.acks.iter().map(v1::ResultAck::status));
    }
    assert_eq!(
        HashSet::from_iter(statuses),
        HashSet::from([v1::ResultStatus::StaleLease, v1::ResultStatus::Committed])
    );
    assert_eq!(node.owner.done(id).await, Outcome::Completed(json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_after_the_acknowledgement_ends_the_lease_after_the_grace() {
    let node = Node::start(fast()).await;
    let id = node.offer("acme", "charge", json!(1));
    let (mut raw, _) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    raw.credit(1).await;
    let dispatch = raw.dispatch().await;
    raw.received(dispatch.seq).await;
    raw.say(Out::Ping(v1::Ping { at: None })).await;
    sleep(Duration::from_millis(100)).await;
    drop(raw);
    let cut = Instant::now();
    let page = node.owner.until(id, "never lost", |page| !page.lost.is_empty()).await;
    assert_eq!(page.lost, [HowLost::LeaseEnded]);
    assert!(cut.elapsed() >= Duration::from_millis(900), "the grace is a second here: {:?}", cut.elapsed());
    eventually("something is left", || node.sessions.census() == Census::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_process_ends_the_leases_of_the_one_before() {
    let node = Node::start(SessionConfig::default()).await;
    let id = node.offer("acme", "charge", json!(1));
    let (mut old, _) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    old.credit(1).await;
    let dispatch = old.dispatch().await;
    old.received(dispatch.seq).await;
    sleep(Duration::from_millis(50)).await;
    let restarted = v1::Hello { instance_nonce: "another".to_owned(), ..hello("w", &["charge"]) };
    let (_new, _) = Raw::open(&node, "acme", restarted).await;
    let page = node.owner.until(id, "never lost", |page| !page.lost.is_empty()).await;
    assert_eq!(page.lost, [HowLost::LeaseEnded]);
    let ended = Failure::from(old.end().await.expect_err("with a reason"));
    assert_eq!((ended.code, ended.reason.as_str()), (Code::FailedPrecondition, "STALE_LEASE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_a_broken_stream_are_judged_with_the_next_hello() {
    let node = Node::start(fast()).await;
    node.owner.mood(Mood::CommitsInSilence);
    let id = node.offer("acme", "charge", json!(1));
    let (mut raw, welcome) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    raw.credit(1).await;
    let dispatch = raw.dispatch().await;
    raw.received(dispatch.seq).await;
    let result = completed(&dispatch.tasks[0], "7");
    raw.say(Out::Results(v1::Results { results: vec![result.clone()] })).await;
    node.owner.until(id, "never reported", |page| page.commits == 1).await;
    drop(raw);

    node.owner.mood(Mood::Commits);
    let resumed = v1::Hello {
        unacknowledged: vec![result, v1::TaskResult::default()],
        resume_token: welcome.resume_token,
        ..hello("w", &["charge"])
    };
    let (_raw, welcome) = Raw::open(&node, "acme", resumed).await;
    let statuses: Vec<_> = welcome.acks.iter().map(v1::ResultAck::status).collect();
    assert_eq!(statuses, [v1::ResultStatus::Duplicate, v1::ResultStatus::Invalid]);
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(node.owner.page(id).lost, [], "it was settled, not lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_over_the_limit_or_against_the_rules_fails_the_step_and_keeps_the_stream() {
    let node = Node::start(fast()).await;
    let (mut raw, welcome) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    let limit = welcome.output_bytes_max as usize;
    let quoted = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let cases = [
        (quoted(limit), v1::ResultStatus::Committed, ""),
        (quoted(limit + 1), v1::ResultStatus::TooLarge, "OUTPUT_TOO_LARGE"),
        ("{\"a\":[1,1e999]}".to_owned(), v1::ResultStatus::Invalid, "INVALID_OUTPUT"),
        ("".to_owned(), v1::ResultStatus::Invalid, "INVALID_OUTPUT"),
        ("[".repeat(10_000), v1::ResultStatus::Invalid, "INVALID_OUTPUT"),
        ("{}".to_owned(), v1::ResultStatus::Committed, ""),
    ];
    for (output, status, code) in cases {
        let id = node.offer("acme", "charge", json!(1));
        raw.credit(1).await;
        let dispatch = raw.dispatch().await;
        let result = completed(&dispatch.tasks[0], &output);
        raw.say(Out::Results(v1::Results { results: vec![result] })).await;
        let Some(In::ResultAcks(acks)) = raw.next().await else { panic!("acks") };
        assert_eq!(acks.acks[0].status(), status, "{code} {}", acks.acks[0].message);
        match node.owner.done(id).await {
            Outcome::Completed(_) => assert_eq!(code, ""),
            Outcome::Failed { code: failed, retryable, message, .. } => {
                assert_eq!((failed.as_str(), retryable), (code, false));
                assert!(
                    code != "OUTPUT_TOO_LARGE" || message.contains("2097153") && message.contains("2097152")
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_breaks_the_protocol_ends_the_stream_and_names_the_field() {
    let node = Node::start(fast()).await;
    let many = |n: usize| (0..n).map(|n| format!("h{n}")).collect::<Vec<_>>();
    let lane = |handlers: Vec<String>| v1::Lane { name: "lane".to_owned(), handlers };
    let good = || hello("w", &["charge"]);
    let credit = |lane: &str, tasks| Out::Credit(v1::Credit { lane: lane.to_owned(), tasks, bytes: 0 });
    let results = |n| Out::Results(v1::Results { results: vec![v1::TaskResult::default(); n] });
    let padded = |n: usize| {
        let failure = v1::TaskFailure { message: "x".repeat(n), ..v1::TaskFailure::default() };
        let outcome = Some(v1::task_result::Outcome::Failed(failure));
        v1::TaskResult { outcome, ..v1::TaskResult::default() }
    };
    let cases: Vec<(Vec<Option<Out>>, &str)> = vec![
        (vec![None], "frame"),
        (vec![Some(credit("lane", 1))], "frame"),
        (vec![Some(Out::Hello(v1::Hello { lanes: vec![lane(many(65))], ..good() }))], "hello.lanes.handlers"),
        (vec![Some(Out::Hello(v1::Hello { worker_id: String::new(), ..good() }))], "hello.worker_id"),
        (vec![Some(Out::Hello(v1::Hello { tenant_id: "globex".to_owned(), ..good() }))], "hello.tenant_id"),
        (vec![Some(Out::Hello(good())), Some(Out::Hello(good()))], "hello"),
        (vec![Some(Out::Hello(good())), Some(credit("lane", 0))], "credit.tasks"),
        (vec![Some(Out::Hello(good())), Some(credit("other", 1))], "credit.lane"),
        (
            vec![Some(Out::Hello(good())), Some(Out::Received(v1::Received { up_to_seq: 1 }))],
            "received.up_to_seq",
        ),
        (vec![Some(Out::Hello(good())), Some(results(65))], "results.results"),
        (
            vec![
                Some(Out::Hello(good())),
                Some(Out::Results(v1::Results { results: vec![padded(600_000); 2] })),
            ],
            "frame",
        ),
        (vec![Some(Out::Hello(good())), None], "frame"),
    ];
    for (frames, field) in cases {
        let mut raw = node.raw("acme").await;
        for frame in frames {
            raw.out.send(v1::SessionRequest { frame }).await.expect("sent");
        }
        let failure = Failure::from(raw.end().await.expect_err(field));
        assert!(matches!(failure.code, Code::InvalidArgument | Code::PermissionDenied), "{failure}");
        assert_eq!(failure.fields.iter().map(|f| f.field.as_str()).collect::<Vec<_>>(), [field], "{failure}");
    }
    // Nothing is wrong with these: they name nothing we know, and change nothing.
    let (mut raw, _) = Raw::open(&node, "acme", good()).await;
    raw.say(Out::Progress(v1::Progress::default())).await;
    raw.say(Out::Release(v1::Release { tasks: vec![v1::HeldTask::default(); 100] })).await;
    raw.say(results(1)).await;
    let Some(In::ResultAcks(acks)) = raw.next().await else { panic!("acks") };
    assert_eq!(acks.acks[0].status(), v1::ResultStatus::Invalid);
    drop(raw);
    eventually("something is left", || node.sessions.census() == Census::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_credential_there_is_no_session_and_without_a_hello_no_patience() {
    let node = Node::start(fast()).await;
    let mut client = Raw::client(node.address).await;
    let refused = client.session(Request::new(tokio_stream::pending())).await.expect_err("no key");
    assert_eq!(refused.code(), Code::Unauthenticated);
    let mut raw = node.raw("acme").await;
    let silent = Failure::from(raw.end().await.expect_err("a second is enough"));
    assert_eq!(silent.fields[0].field, "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_never_see_each_others_tasks_sessions_or_handlers() {
    let node = Node::start(fast()).await;
    let (mut acme, _) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    let (mut globex, _) = Raw::open(&node, "globex", hello("w", &["charge"])).await;
    acme.credit(200).await;
    globex.credit(200).await;
    for n in 0..100 {
        node.offer("acme", "charge", json!(n));
        node.offer("globex", "charge", json!(n));
    }
    let mut foreign = None;
    for (raw, own) in [(&mut acme, "acme"), (&mut globex, "globex")] {
        let mut got = 0;
        while got < 100 {
            let dispatch = raw.dispatch().await;
            raw.received(dispatch.seq).await;
            got += dispatch.tasks.len();
            assert!(dispatch.tasks.iter().all(|task| task.tenant_id == own));
            foreign = dispatch.tasks.into_iter().next();
        }
        assert!(raw.is_quiet(Duration::from_millis(50)).await);
    }
    // Who learns the name of a foreign task can neither hand it back nor resume it.
    let stolen = foreign.expect("a task of globex");
    let held = v1::HeldTask { lease: stolen.lease.clone(), route: stolen.route };
    acme.say(Out::Release(v1::Release { tasks: vec![held.clone()] })).await;
    let (_thief, welcome) =
        Raw::open(&node, "acme", v1::Hello { running: vec![held], ..hello("w", &["charge"]) }).await;
    assert_eq!(welcome.held[0].state(), v1::HeldState::Drop);
    let census = node.sessions.census();
    assert_eq!(census.in_flight, 200, "{census:?}");

    let mut client = Raw::client(node.address).await;
    let ask = |tenant: &str, named: &str| {
        let mut request = Request::new(v1::ListSessionsRequest { tenant_id: named.to_owned() });
        request
            .metadata_mut()
            .insert("authorization", format!("Bearer {tenant}-client").parse().expect("ascii"));
        request
    };
    let listed = client.list_sessions(ask("globex", "")).await.expect("allowed").into_inner().sessions;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].worker_id.as_str(), listed[0].version.as_str()), ("w", "1.2.3"));
    assert_eq!((listed[0].lanes[0].in_flight, listed[0].lanes[0].credit), (100, 100));
    assert!(client.list_sessions(ask("globex", "acme")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_are_listed_as_wanted_and_as_offered() {
    let node = Node::start(fast()).await;
    node.offer("acme", "chrage", json!(1));
    node.offer("acme", "chrage", json!(2));
    let (_raw, _) = Raw::open(&node, "acme", hello("w", &["charge", "refund"])).await;
    let handlers = node.sessions.handlers(&"acme".to_owned().try_into().expect("a name"));
    let seen: Vec<_> = handlers.iter().map(|h| (h.handler.as_str(), h.queued, h.sessions)).collect();
    assert_eq!(seen, [("charge", 0, 1), ("chrage", 2, 0), ("refund", 0, 1)]);
    assert_eq!((handlers[1].oldest.is_some(), handlers[1].nearest.as_str()), (true, "charge"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tasks_of_one_tenant_do_not_delay_the_first_of_another() {
    let config = SessionConfig::default();
    let node_bounds = Bounds { in_flight: 64, ..config.node.clone() };
    let node = Node::start(SessionConfig { node: node_bounds, ..config }).await;
    let (mut big, _) = Raw::open(&node, "big", hello("w", &["charge"])).await;
    let (mut small, _) = Raw::open(&node, "small", hello("w", &["charge"])).await;
    big.credit(1_000).await;
    small.credit(1).await;
    for n in 0..1_000 {
        node.offer("big", "charge", json!(n));
    }
    // The node is full of the big tenant's tasks; the small one's comes now.
    node.offer("small", "charge", json!(0));
    let mut finished = 0;
    let first = small.dispatch();
    tokio::pin!(first);
    let dispatch = loop {
        tokio::select! {
            biased;
            dispatch = &mut first => break dispatch,
            frame = big.next() => {
                let Some(In::Dispatch(dispatch)) = frame else { continue };
                big.received(dispatch.seq).await;
                let results: Vec<_> = dispatch.tasks.iter().map(|task| completed(task, "1")).collect();
                finished += results.len();
                big.say(Out::Results(v1::Results { results })).await;
            }
        }
    };
    assert_eq!(dispatch.tasks.len(), 1);
    assert!(finished <= 3 * 64, "{finished} of the big tenant went first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drains_gets_nothing_new_and_hands_back_what_never_started() {
    let node = Node::start(fast()).await;
    let id = node.owner.offer_until_done(|| task("acme", "charge", json!(1)));
    let (mut raw, _) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    raw.credit(10).await;
    let dispatch = raw.dispatch().await;
    raw.received(dispatch.seq).await;
    raw.say(Out::Drain(v1::Drain {})).await;
    let held = v1::HeldTask { lease: dispatch.tasks[0].lease.clone(), route: dispatch.tasks[0].route };
    raw.say(Out::Release(v1::Release { tasks: vec![held] })).await;
    node.owner.until(id, "never handed back", |page| page.lost == [HowLost::NeverStarted]).await;
    assert!(raw.is_quiet(Duration::from_millis(100)).await, "it is offered again, but not to this one");
    // The worker closes its half, the server its own.
    let Raw { out, inbound } = raw;
    drop(out);
    let mut raw = Raw { out: tokio::sync::mpsc::channel(1).0, inbound };
    assert!(raw.end().await.is_ok());
    eventually("the session is left", || node.sessions.census().sessions == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_closed_its_half_still_reads_its_answers() {
    let node = Node::start(fast()).await;
    let id = node.offer("acme", "charge", json!(1));
    let (mut raw, _) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    raw.credit(1).await;
    let dispatch = raw.dispatch().await;
    raw.received(dispatch.seq).await;
    raw.say(Out::Results(v1::Results { results: vec![completed(&dispatch.tasks[0], "1")] })).await;
    let Raw { out, inbound } = raw;
    drop(out);
    let mut raw = Raw { out: tokio::sync::mpsc::channel(1).0, inbound };
    let Some(In::ResultAcks(acks)) = raw.next().await else { panic!("acks") };
    assert_eq!(acks.acks[0].status(), v1::ResultStatus::Committed);
    assert!(raw.end().await.is_ok());
    node.owner.done(id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_drains_by_its_deadline_even_if_a_worker_ignores_it() {
    let node = Node::start(SessionConfig::default()).await;
    let (mut stubborn, _) = Raw::open(&node, "acme", hello("stubborn", &["charge"])).await;
    let (mut polite, _) = Raw::open(&node, "acme", hello("polite", &["charge"])).await;
    let (sessions, began) = (node.sessions.clone(), Instant::now());
    let drain = tokio::spawn(async move { sessions.drain(Duration::from_millis(500)).await });
    assert!(matches!(polite.next().await, Some(In::GoAway(_))));
    drop(polite);
    assert!(matches!(stubborn.next().await, Some(In::GoAway(_))));
    stubborn.credit(5).await;
    drain.await.expect("ends");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let ended = Failure::from(stubborn.end().await.expect_err("with a reason"));
    assert_eq!((ended.code, ended.reason.as_str()), (Code::Unavailable, "DRAINING"));

    let mut late = node.raw("acme").await;
    late.say(Out::Hello(hello("late", &["charge"]))).await;
    let refused = Failure::from(late.end().await.expect_err("no new session"));
    assert_eq!(refused.reason, "DRAINING");
    drop((late, stubborn));
    assert!(node.stop_serving().await, "no stream holds the server back");
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_and_cuts_leave_nothing_behind() {
    let node = Node::start(fast()).await;
    let base = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for n in 0..500 {
        node.offer("acme", "charge", json!(n));
    }
    for round in 0..10 {
        let mut streams = Vec::new();
        for n in 0..50 {
            let (raw, _) = Raw::open(&node, "acme", hello(&format!("w{round}-{n}"), &["charge"])).await;
            raw.say(Out::Ping(v1::Ping { at: None })).await;
            raw.credit(1).await;
            streams.push(raw);
        }
        for (n, mut raw) in streams.into_iter().enumerate() {
            match n % 3 {
                // Cut, with tasks on the way.
                0 => drop(raw),
                // Cut, with a task acknowledged.
                1 => {
                    let dispatch = raw.dispatch().await;
                    raw.received(dispatch.seq).await;
                }
                // Closed properly.
                _ => {
                    let Raw { out, inbound } = raw;
                    drop(out);
                    let mut raw = Raw { out: tokio::sync::mpsc::channel(1).0, inbound };
                    raw.end().await.expect("a clean end");
                }
            }
        }
    }
    let empty = |census: Census| census.sessions == 0 && census.broken == 0 && census.in_flight == 0;
    eventually("sessions are left", || empty(node.sessions.census())).await;
    // What was never written is still wanted; nothing else is known of.
    let census = node.sessions.census();
    assert_eq!((census.workers, census.timers, census.tasks), (0, 0, census.queued), "{census:?}");
    let (mut raw, _) = Raw::open(&node, "acme", hello("last", &["charge"])).await;
    raw.credit(256).await;
    let mut left = census.queued.min(256);
    while left > 0 {
        left -= raw.dispatch().await.tasks.len();
    }
    drop(raw);
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let until = Instant::now() + PATIENCE;
    while alive() > base + 5 && Instant::now() < until {
        sleep(Duration::from_millis(20)).await;
    }
    assert!(alive() <= base + 5, "{} tasks, {base} before", alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_keeps_what_it_ran_before_this_node_took_the_shard() {
    let node = Node::start(fast()).await;
    let inherited = |params| {
        let (instance, id) = (uuid::Uuid::now_v7(), orch8_model::TaskId(uuid::Uuid::now_v7()));
        node.owner.inherit(move || {
            let mut task = task("acme", "charge", json!(params));
            task.instance = orch8_model::InstanceId(instance);
            task.dispatch.task = id;
            task
        })
    };
    let (mine, left) = (inherited(1), inherited(2));
    let held = |task: orch8_data_plane::session::TaskRef| v1::HeldTask {
        lease: Some(v1::Lease {
            task_id: task.task.to_string(),
            attempt: 0,
            claim_epoch: task.claim_epoch.get(),
        }),
        route: Some(v1::Route { shard: 0, placement_epoch: 0 }),
    };
    let unknown = v1::HeldTask { lease: Some(v1::Lease::default()), route: None };
    let running = vec![held(mine), unknown, held(left)];
    let (mut raw, welcome) = Raw::open(&node, "acme", v1::Hello { running, ..hello("w", &["charge"]) }).await;
    let verdicts: Vec<_> = welcome.held.iter().map(v1::HeldVerdict::state).collect();
    assert_eq!(verdicts, [v1::HeldState::Keep, v1::HeldState::Drop, v1::HeldState::Keep]);
    assert_eq!(node.sessions.census().in_flight, 2);

    let v1::HeldTask { lease, route } = held(mine);
    let result = v1::TaskResult { lease, route, ..completed(&v1::Task::default(), "1") };
    raw.say(Out::Results(v1::Results { results: vec![result] })).await;
    let Some(In::ResultAcks(acks)) = raw.next().await else { panic!("acks") };
    assert_eq!(acks.acks[0].status(), v1::ResultStatus::Committed);
    drop(raw);
    let page = node.owner.until(left.task, "never lost", |page| !page.lost.is_empty()).await;
    assert_eq!(page.lost, [HowLost::LeaseEnded]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_sends_and_never_reads_is_cut_off() {
    let node = Node::start(SessionConfig { unread_answers: 2_000, ..SessionConfig::default() }).await;
    let (mut raw, _) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    let garbage = Out::Results(v1::Results { results: vec![v1::TaskResult::default(); 64] });
    let flood = v1::SessionRequest { frame: Some(garbage) };
    let until = Instant::now() + PATIENCE;
    while raw.out.send(flood.clone()).await.is_ok() && node.sessions.census().sessions > 0 {
        assert!(Instant::now() < until, "never cut off");
    }
    let failure = Failure::from(raw.end().await.expect_err("with a reason"));
    assert_eq!((failure.code, failure.reason.as_str()), (Code::ResourceExhausted, "OVERLOADED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_owners_do_not_cost_a_worker_its_session() {
    let node = Node::start(SessionConfig { pending_answers: 3, ..fast() }).await;
    node.owner.mood(Mood::CommitsInSilence);
    let (mut raw, _) = Raw::open(&node, "acme", hello("w", &["charge"])).await;
    raw.credit(4).await;
    for n in 0..4 {
        node.offer("acme", "charge", json!(n));
    }
    let mut tasks = Vec::new();
    while tasks.len() < 4 {
        tasks.extend(raw.dispatch().await.tasks);
    }
    for task in &tasks {
        raw.say(Out::Results(v1::Results { results: vec![completed(task, "1")] })).await;
    }
    // Longer than the lease, with the worker's frames unread.
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(node.sessions.census().sessions, 1);
}
