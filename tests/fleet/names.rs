//! One name, more than one process.

use std::time::{Duration, Instant};

use orch8_proto::v1::InstanceState::Completed;
use serde_json::json;

use crate::rig::{
    PATIENCE,
    fleet::{Fleet, Kind},
};

#[tokio::test(flavor = "multi_thread")]
async fn of_processes_with_one_name_one_works_and_the_fleet_comes_to_rest() {
    for processes in [2, 3] {
        let mut fleet = Fleet::start(Kind::Postgres, 1).await;
        let acme = fleet.tenant("acme").await;
        acme.publish(&json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
            .await
            .expect("published");
        for _ in 1..processes {
            let mut twin = fleet.process_of_node(1);
            twin.up();
            fleet.nodes.push(twin);
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (_, epoch) = fleet.owner_of("main").await.expect("an owner");
        tokio::time::sleep(Duration::from_secs(4)).await;
        let (_, later) = fleet.owner_of("main").await.expect("an owner");
        let mut ids = Vec::new();
        for n in 0..30 {
            let node = fleet.at(n % processes, &acme);
            fleet.known(&node).await;
            ids.push(node.start("n", &json!({})).await.expect("started"));
        }
        let began = Instant::now();
        for id in &ids {
            assert_eq!(acme.ended_within(id, PATIENCE).await.state(), Completed);
        }
        println!("{processes} processes: epochs {epoch} to {later} in 4 s; runs took {:?}", began.elapsed());
        assert_eq!(later, epoch, "{processes} processes take the name from each other: {}", fleet.logs());
    }
}
