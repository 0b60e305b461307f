//! The Rust worker against the real server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use orch8_data_plane::session::{Census, SessionConfig};
use orch8_engine::{HowLost, Outcome};
use orch8_worker::{StepContext, StepError, WorkerError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::rig::{Mood, Node, Proxy, eventually, fast, task, worker_at};

#[derive(Deserialize)]
struct Charge {
    cents: u64,
}

#[derive(Serialize)]
struct Receipt {
    key: String,
    cents: u64,
    place: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_gets_its_input_and_context_and_its_output_is_committed() {
    let node = Node::start(fast()).await;
    let stop = CancellationToken::new();
    let worker = node.worker("acme").handler("charge", |ctx: StepContext, input: Charge| async move {
        ctx.progress(&json!({ "asked": true })).await?;
        let who: Value = ctx.context()?;
        assert_eq!(who["data"]["who"], "acme");
        Ok(Receipt {
            key: ctx.idempotency_key().to_owned(),
            cents: input.cents,
            place: format!("{}/{}#{}", ctx.tenant(), ctx.block_path().join("/"), ctx.iteration()),
        })
    });
    let running = tokio::spawn(worker.run(stop.clone().cancelled_owned()));
    let id = node.offer("acme", "charge", json!({ "cents": 7 }));
    let place = "acme/outer/block#0.2";
    let expected = json!({ "key": "ab".repeat(32), "cents": 7, "place": place });
    assert_eq!(node.owner.done(id).await, Outcome::Completed(expected));

    let many: Vec<_> = (0..500).map(|n| node.offer("acme", "charge", json!({ "cents": n }))).collect();
    for id in many {
        assert!(matches!(node.owner.done(id).await, Outcome::Completed(_)));
    }
    stop.cancel();
    running.await.expect("no panic").expect("drained");
    eventually("something is left", || node.sessions.census() == Census::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_fail_arrives_as_what_it_is() {
    let node = Node::start(fast()).await;
    let worker = node.worker("acme").handler("fail", |_: StepContext, how: String| async move {
        match how.as_str() {
            "retryable" => Err(StepError::retryable("later").retry_after(Duration::from_secs(5))),
            "permanent" => Err(StepError::permanent("never").code("DECLINED").details(json!({ "bank": 7 }))),
            "question mark" => Ok(json!(how.parse::<u8>()?)),
            "large" => Ok(json!("x".repeat(3 << 20))),
            _ => panic!("on purpose"),
        }
    });
    tokio::spawn(worker.run(std::future::pending()));
    let cases = [
        (json!("retryable"), "FAILED", "later", true),
        (json!("permanent"), "DECLINED", "never", false),
        (json!("question mark"), "FAILED", "invalid digit", true),
        (json!("large"), "OUTPUT_TOO_LARGE", "3145730", false),
        (json!("panic"), "PANIC", "on purpose", true),
        (json!({ "not": "a string" }), "INVALID_PARAMS", "params", false),
    ];
    for (how, expected, says, may_retry) in cases {
        let id = node.offer("acme", "fail", how.clone());
        let Outcome::Failed { code, message, retryable, retry_after, details } = node.owner.done(id).await
        else {
            panic!("{how} did not fail")
        };
        assert_eq!((code.as_str(), retryable), (expected, may_retry), "{how}");
        assert!(message.contains(says), "{how}: {message}");
        assert_eq!(retry_after, (how == "retryable").then_some(Duration::from_secs(5)));
        assert_eq!(details, if how == "permanent" { json!({ "bank": 7 }) } else { Value::Null });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_handlers_see_the_text_itself() {
    let node = Node::start(fast()).await;
    let worker = node.worker("acme").raw_handler("echo", |_, input: Bytes| async move {
        assert_eq!(input, r#"{"n":18446744073709551615,"f":1.0}"#);
        Ok(input)
    });
    tokio::spawn(worker.run(std::future::pending()));
    let params = json!({ "n": u64::MAX, "f": 1.0 });
    let id = node.offer("acme", "echo", params.clone());
    assert_eq!(node.owner.done(id).await, Outcome::Completed(params));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_runs_when_the_stream_is_cut_keeps_its_lease_and_finishes_once() {
    let node = Node::start(fast()).await;
    let proxy = Proxy::to(node.address).await;
    let (started, finish) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, wait) = (started.clone(), finish.clone());
    let worker = worker_at(proxy.address, "acme").handler("slow", move |_: StepContext, (): ()| {
        let (count, wait) = (count.clone(), wait.clone());
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            wait.notified().await;
            Ok("done")
        }
    });
    tokio::spawn(worker.run(std::future::pending()));
    let id = node.owner.offer_until_done(|| task("acme", "slow", Value::Null));
    eventually("never started", || started.load(Ordering::SeqCst) == 1).await;
    sleep(Duration::from_millis(50)).await;
    for _ in 0..3 {
        proxy.cut();
        sleep(Duration::from_millis(400)).await;
    }
    // Longer than the grace of any of the streams that were cut.
    sleep(Duration::from_millis(1_200)).await;
    finish.notify_one();
    assert_eq!(node.owner.done(id).await, Outcome::Completed(json!("done")));
    let page = node.owner.page(id);
    assert_eq!((page.claim_epoch.get(), page.commits, page.lost.len()), (1, 1, 0), "{page:?}");
    assert_eq!(started.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_whose_answer_was_lost_is_sent_again_and_committed_once() {
    let node = Node::start(fast()).await;
    let proxy = Proxy::to(node.address).await;
    node.owner.mood(Mood::CommitsInSilence);
    let stop = CancellationToken::new();
    let worker =
        worker_at(proxy.address, "acme").raw_handler("echo", |_, input: Bytes| async move { Ok(input) });
    let running = tokio::spawn(worker.run(stop.clone().cancelled_owned()));
    let id = node.owner.offer_until_done(|| task("acme", "echo", json!(5)));
    node.owner.until(id, "never reported", |page| page.commits == 1).await;
    node.owner.mood(Mood::Commits);
    proxy.cut();
    node.owner.until(id, "not sent again", |page| page.reports == 2).await;
    stop.cancel();
    running.await.expect("no panic").expect("it knows that the result is committed");
    let page = node.owner.page(id);
    assert_eq!((page.commits, page.lost.len()), (1, 0), "{page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_the_owner_could_not_judge_is_sent_again() {
    let node = Node::start(fast()).await;
    node.owner.mood(Mood::LosesTheFirst);
    let worker = node.worker("acme").raw_handler("echo", |_, input: Bytes| async move { Ok(input) });
    tokio::spawn(worker.run(std::future::pending()));
    let id = node.owner.offer_until_done(|| task("acme", "echo", json!(5)));
    assert_eq!(node.owner.done(id).await, Outcome::Completed(json!(5)));
    let page = node.owner.page(id);
    assert_eq!((page.reports, page.commits, page.lost.len()), (2, 1, 0), "{page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoke_cancels_the_context_and_nothing_is_reported_afterwards() {
    let node = Node::start(fast()).await;
    let (started, cancelled) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (start, cancel) = (started.clone(), cancelled.clone());
    let worker = node.worker("acme").max_in_flight(1).handler("slow", move |ctx: StepContext, (): ()| {
        let (start, cancel) = (start.clone(), cancel.clone());
        async move {
            start.notify_one();
            ctx.cancelled().await;
            cancel.notify_one();
            Ok(())
        }
    });
    tokio::spawn(worker.run(std::future::pending()));
    let withdrawn = task("acme", "slow", Value::Null);
    let reference = withdrawn.reference();
    let id = node.owner.offer(withdrawn);
    started.notified().await;
    node.sessions.withdraw(reference, "cancelled by an operator");
    cancelled.notified().await;

    // The place it took is free again; a start-to-close limit revokes as well.
    let mut limited = task("acme", "slow", Value::Null);
    limited.dispatch.timeout_ms = Some(100);
    let late = node.owner.offer(limited);
    started.notified().await;
    let page = node.owner.until(late, "never timed out", |page| !page.lost.is_empty()).await;
    assert_eq!(page.lost, [HowLost::StartToClose]);
    cancelled.notified().await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!((node.owner.page(id).reports, node.owner.page(late).reports), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_finishes_what_runs_and_gives_up_when_its_time_is_over() {
    let node = Node::start(SessionConfig::default()).await;
    for (drain, step, all) in [(10_000, 300, true), (200, 60_000, false)] {
        let started = Arc::new(Notify::new());
        let start = started.clone();
        let stop = CancellationToken::new();
        let worker = node
            .worker("acme")
            .max_in_flight(1)
            .drain_timeout(Duration::from_millis(drain))
            .handler("slow", move |_: StepContext, (): ()| {
                let start = start.clone();
                async move {
                    start.notify_one();
                    sleep(Duration::from_millis(step)).await;
                    Ok(())
                }
            });
        let running = tokio::spawn(worker.run(stop.clone().cancelled_owned()));
        let first = node.offer("acme", "slow", Value::Null);
        started.notified().await;
        stop.cancel();
        let began = Instant::now();
        match running.await.expect("no panic") {
            Ok(()) => assert!(all && node.owner.page(first).commits == 1),
            Err(WorkerError::Unfinished { unfinished }) => assert!(!all && unfinished == 1),
            Err(other) => panic!("{other}"),
        }
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_come_and_go_lose_nothing_and_double_nothing() {
    let node = Node::start(SessionConfig::default()).await;
    let worker = |name: String, stop: &CancellationToken| {
        let worker = node.worker("acme").worker_id(name).max_in_flight(8);
        let worker = worker.raw_handler("echo", |_, input: Bytes| async move {
            sleep(Duration::from_millis(2)).await;
            Ok(input)
        });
        tokio::spawn(worker.run(stop.clone().cancelled_owned()))
    };
    let steady = CancellationToken::new();
    let _steady = worker("steady".to_owned(), &steady);
    let mut tasks = Vec::new();
    for round in 0..20 {
        let stop = CancellationToken::new();
        let running = worker(format!("w{round}"), &stop);
        for n in 0..25 {
            tasks.push(node.owner.offer_until_done(move || task("acme", "echo", json!(n))));
            if n == 5 + round {
                stop.cancel();
            }
            sleep(Duration::from_millis(1)).await;
        }
        stop.cancel();
        running.await.expect("no panic").expect("drained");
    }
    for id in tasks {
        node.owner.done(id).await;
        let page = node.owner.page(id);
        assert_eq!(page.commits, 1);
        assert!(
            page.lost.iter().all(|how| *how == HowLost::NeverStarted),
            "no lease was waited for: {page:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_after_its_server_came_back() {
    let node = Node::start(fast()).await;
    let proxy = Proxy::to(node.address).await;
    let worker =
        worker_at(proxy.address, "acme").raw_handler("echo", |_, input: Bytes| async move { Ok(input) });
    tokio::spawn(worker.run(std::future::pending()));
    for n in 0..10 {
        proxy.cut();
        let id = node.owner.offer_until_done(move || task("acme", "echo", json!(n)));
        assert_eq!(node.owner.done(id).await, Outcome::Completed(json!(n)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_leaves_a_server_that_drains_with_its_work_done() {
    let node = Node::start(SessionConfig::default()).await;
    let started = Arc::new(Notify::new());
    let start = started.clone();
    let worker = node.worker("acme").handler("slow", move |_: StepContext, (): ()| {
        let start = start.clone();
        async move {
            start.notify_one();
            sleep(Duration::from_millis(300)).await;
            Ok(())
        }
    });
    tokio::spawn(worker.run(std::future::pending()));
    let id = node.offer("acme", "slow", Value::Null);
    started.notified().await;
    node.sessions.drain(Duration::from_secs(2)).await;
    let page = node.owner.page(id);
    assert_eq!((page.commits, page.lost.len()), (1, 0), "{page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_refused_for_good_says_so_at_once() {
    let node = Node::start(fast()).await;
    let echo = |_: StepContext, input: Bytes| async move { Ok(input) };
    let nobody = orch8_worker::Worker::builder(format!("http://{}", node.address)).raw_handler("echo", echo);
    let strange = node.worker("acme").tenant("globex").raw_handler("echo", echo);
    for (worker, reason) in [(nobody, "CREDENTIAL_INVALID"), (strange, "TENANT_MISMATCH")] {
        match worker.run(std::future::pending()).await {
            Err(WorkerError::Refused(failure)) => assert_eq!(failure.reason, reason),
            other => panic!("{other:?}"),
        }
    }
}
