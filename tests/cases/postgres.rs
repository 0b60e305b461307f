//! Faults that hit people who run engines like this one, each as a small scenario with its right outcome, against real
//! processes on Postgres: a control plane and a node.

#[path = "../rig/mod.rs"]
mod rig;

mod cancel_race;
mod fan_out;
mod head_of_line;
mod idempotency;
mod json_edges;
mod pages;
mod signal_race;
mod time_edges;
mod unicode_names;
mod workers;

/// What every scenario here runs on.
async fn house() -> rig::house::House {
    rig::house::House::postgres().await
}
