//! The contract: `orch8.v1`, and the door between wire and model.
//!
//! - [`door`]: wire ⇄ model, one small total function per shape; every fault names its field.
//! - [`status`]: [`orch8_model::Fault`] → `tonic::Status`, in this file alone; [`client`] is the way back.
//! - [`identity`]: which credential may call what, and for which tenant.
//! - [`serve`]: a listener, its limits, health, reflection, and a shutdown that ends. [`tls`]: certificates, for both ends.
//!
//! It knows neither a store nor what any operation does.

pub mod client;
pub mod door;
pub mod identity;
pub mod serve;
pub mod status;
pub mod tls;

/// Generated from `orch8/v1/*.proto`.
#[allow(clippy::all, missing_docs)]
pub mod v1 {
    tonic::include_proto!("orch8.v1");
}

/// The compiled descriptors of `orch8.v1`, for reflection and for tests that walk every field.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/orch8.v1.bin"));
