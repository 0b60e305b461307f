//! Worker sessions over a real server on loopback, with an owner that keeps its book in memory.

mod protocol;
mod rig;
mod worker;
