//! The contract: `orch8.v1`, and the door between wire and model.

/// Generated from `orch8/v1/*.proto`.
#[allow(clippy::all, missing_docs)]
pub mod v1 {
    tonic::include_proto!("orch8.v1");
}

/// The compiled descriptors of `orch8.v1`, for reflection and for tests that walk every field.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/orch8.v1.bin"));
