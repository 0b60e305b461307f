//! Several processes on one store: who owns the shards, and what a process that was killed, paused or cut off may still
//! do, which is nothing.

mod demo;
mod identity;
#[path = "../rig/mod.rs"]
mod rig;
mod takeover;
mod two_nodes;
