//! What a fleet costs that has nothing to do.

use std::time::{Duration, Instant};

use orch8_test_postgres::ask;

use crate::rig::fleet::{Fleet, Kind};

/// Statements of a minute of 64 idle shards: 12 looks of each, none of them more than a handful of statements.
const STATEMENTS_A_SECOND: f64 = 100.0;

/// Processor time of a process so far.
fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|n| n.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_fleet_of_sixty_four_shards_rests() {
    let fleet = Fleet::start_at_full_length(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let _ = acme;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let commits = || -> i64 {
        let sql =
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        ask(&fleet.store_url, sql).parse().expect("a number")
    };
    let pids: Vec<u32> = fleet.nodes.iter().chain([&fleet.control]).map(|process| process.pid()).collect();
    let (began, before) = (Instant::now(), commits());
    let spent: Vec<Duration> = pids.iter().map(|pid| processor_time(*pid)).collect();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let seconds = began.elapsed().as_secs_f64();
    let a_second = (commits() - before) as f64 / seconds;
    let share: Vec<String> = pids
        .iter()
        .zip(spent)
        .map(|(pid, spent)| {
            format!("{:.1} %", (processor_time(*pid) - spent).as_secs_f64() / seconds * 100.0)
        })
        .collect();
    println!("{a_second:.1} statements a second; processor of two nodes and a control plane: {share:?}");
    assert!(a_second < STATEMENTS_A_SECOND, "{a_second:.1} statements a second");
}
