//! A store's room: what it keeps in memory, and which shards it owns.

mod memory;
mod rig;
mod tenure;
