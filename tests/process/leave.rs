//! How a server leaves: within its deadline, whatever its peers do.

use std::time::{Duration, Instant};

use orch8_proto::{
    client::Failure,
    v1::{DescribeFleetRequest, WatchRequest},
};
use tokio::time::timeout;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    server::{ADMIN, NODE, PATIENCE, Server, keyed},
    wire::{Heard, Peer},
};

/// Sockets are cut at most this long after the deadline.
const LATE: Duration = Duration::from_millis(1_500);
const WATCH: &str = "/orch8.v1.FleetService/Watch";

/// `node_id` = `n`, as protobuf.
const WATCHING: &[u8] = &[0x0a, 0x01, b'n'];

#[tokio::test]
async fn health_says_not_serving_before_anything_ends() {
    let mut server = Server::start(&["--drain", "2s"]).await;
    let channel = server.connect(orch8_proto::tls::ClientTls::default()).await.expect("connects");
    let mut health = HealthClient::new(channel);
    let mut watch = health.watch(HealthCheckRequest::default()).await.expect("open to all").into_inner();
    assert_eq!(watch.message().await.expect("one").expect("one").status(), ServingStatus::Serving);
    // Holds the process for its whole deadline.
    let mut stuck = Peer::connect(server.socket()).await;
    stuck.call(1, WATCH, NODE, WATCHING).await;
    stuck.until(Heard::Headers).await;
    server.signal("TERM");
    let last = timeout(Duration::from_secs(1), watch.message()).await.expect("at once").expect("one");
    assert_eq!(last.expect("one").status(), ServingStatus::NotServing);
    assert!(server.child.try_wait().expect("a child").is_none(), "and it is still there");
    assert!(server.ended().await.1.success());
}

#[tokio::test]
async fn sigterm_ends_a_stream_well_and_the_process_within_its_deadline() {
    let mut server = Server::start(&["--drain", "3s"]).await;
    let mut fleet = server.fleet().await;
    let watching = WatchRequest { node_id: "n".into(), ..Default::default() };
    let mut watch = fleet.watch(keyed(NODE, watching)).await.expect("opens").into_inner();
    watch.message().await.expect("a snapshot").expect("a snapshot");
    server.signal("TERM");
    let end = timeout(PATIENCE, async {
        loop {
            if let Err(status) = watch.message().await {
                return Failure::from(status);
            }
        }
    });
    assert_eq!(end.await.expect("an end").reason, "DRAINING");
    // This client does nothing more: its connection is not closed from this side.
    let (took, status) = server.ended().await;
    assert!(status.success(), "{}", server.said());
    assert!(took < Duration::from_secs(3) + LATE, "{took:?}");
}

#[tokio::test]
async fn a_peer_that_ignores_goaway_and_goes_on_asking_is_cut_at_the_deadline() {
    let mut server = Server::start(&["--drain", "1s"]).await;
    let mut peer = Peer::connect(server.socket()).await;
    peer.call(1, WATCH, NODE, WATCHING).await;
    peer.until(Heard::Headers).await;
    let began = Instant::now();
    server.signal("TERM");
    peer.until(Heard::GoAway).await;
    // It hears, and does as if it had not.
    let stubborn = tokio::spawn(async move {
        let mut stream = 3;
        loop {
            peer.ping().await;
            peer.call(stream, WATCH, NODE, WATCHING).await;
            stream += 2;
            if let Ok(Heard::End) = timeout(Duration::from_millis(20), peer.hear()).await {
                return;
            }
        }
    });
    let (_, status) = server.ended().await;
    let took = began.elapsed();
    assert!(status.success(), "{}", server.said());
    assert!(took < Duration::from_secs(1) + LATE, "{took:?}");
    timeout(PATIENCE, stubborn).await.expect("the socket was closed").expect("no panic");
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    for second in ["TERM", "INT"] {
        let mut server = Server::start(&["--drain", "60s"]).await;
        let mut peer = Peer::connect(server.socket()).await;
        // A call whose answer is a stream keeps the connection open.
        peer.call(1, WATCH, NODE, WATCHING).await;
        peer.until(Heard::Headers).await;
        server.signal("TERM");
        peer.until(Heard::GoAway).await;
        server.signal(second);
        let (took, status) = server.ended().await;
        assert_eq!(status.code(), Some(130), "{second}");
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

#[tokio::test]
async fn without_anybody_there_leaving_takes_no_time() {
    let mut server = Server::start(&["--drain", "60s"]).await;
    let mut fleet = server.fleet().await;
    fleet.describe_fleet(keyed(ADMIN, DescribeFleetRequest {})).await.ok();
    // An idle connection is nobody.
    server.signal("TERM");
    let (took, status) = server.ended().await;
    assert!(status.success() && took < Duration::from_secs(2), "{took:?} {}", server.said());
}

#[tokio::test]
async fn a_server_ends_with_the_one_who_started_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("database=sqlite:{}", folder.path().join("c.db").display());
    let args = ["--exit-with-stdin", "control-plane", "--listen", "127.0.0.1:0", "--set", &database];
    let mut child = crate::server::orch8(&args)
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("a child").is_none(), "it serves");
    drop(child.stdin.take());
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        assert!(began.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
