//! How server processes stand at the edge: what they refuse to start with, whom they let in, and how they leave.

mod leave;
mod pki;
#[path = "../rig/mod.rs"]
mod rig;
mod server;
mod session;
mod start;
mod tls;
mod wire;
