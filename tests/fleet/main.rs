//! Several processes on one store: who owns the shards, and what a process that was killed, paused or cut off may still
//! do, which is nothing.

mod demo;
mod identity;
mod lost_store;
mod moved;
mod names;
mod replicas;
mod rest;
mod restored;
#[path = "../rig/mod.rs"]
mod rig;
mod slow_store;
mod takeover;
mod two_nodes;
