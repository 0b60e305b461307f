//! What a server process is told before it starts: flags, then `ORCH8_*` variables, then one TOML file, then defaults.
//!
//! Everything is read and judged before a port is opened or a database touched, and all that is wrong is said in one
//! answer: each line names its key as it was given, what is wrong, and what is allowed. Secrets may stand in a file of
//! their own (`*_file`, `*_FILE`), and are never shown.

mod command;
mod control_plane;
mod data_plane;
mod key;
mod listener;
mod problem;
mod reader;
mod sources;
#[cfg(test)]
mod tests;

pub use command::{ConfigArgs, KeyFlags, run};
pub use control_plane::ControlPlaneConfig;
pub use data_plane::{DataPlaneConfig, Uplink};
pub use key::{CONTROL_PLANE, DATA_PLANE, help};
pub use problem::Problems;
pub use reader::{Shown, read_bytes};
pub use sources::{SettingFlags, Sources};
