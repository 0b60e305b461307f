//! Every field of every RPC, with everything that should not be in it, against a real engine.
//!
//! The walks are made from the compiled descriptors: a new field or RPC is walked without a line here, and a new RPC
//! without a baseline request fails the test. What a good request does is not told here.

#[path = "../rig/mod.rs"]
mod rig;

mod baseline;
mod census;
mod doors;
mod mutate;
mod raw;
mod relay;
mod strangers;
mod walk;
mod wire;

use orch8_model::Reason;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Our RPCs, in the order of their files.
fn methods() -> Vec<MethodDescriptor> {
    DescriptorPool::decode(orch8_proto::FILE_DESCRIPTOR_SET)
        .expect("descriptors")
        .services()
        .filter(|service| service.full_name().starts_with("orch8.v1."))
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .collect()
}

fn path_of(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// What every refusal owes its caller: a code that is not ours to blame, a known reason, and the limit when a limit was
/// the reason. Answers the reason.
fn owed(what: &str, refused: &Status) -> Reason {
    assert!(!matches!(refused.code(), Code::Internal | Code::Unknown), "{what}: {refused:?}");
    let info =
        refused.get_details_error_info().unwrap_or_else(|| panic!("{what}: no ErrorInfo in {refused:?}"));
    assert_eq!(info.domain, "orch8", "{what}");
    let reason = Reason::ALL.iter().find(|known| known.as_str() == info.reason);
    let reason = *reason.unwrap_or_else(|| panic!("{what}: unknown reason {}", info.reason));
    assert_eq!(orch8_proto::status::code(reason.class()), refused.code(), "{what}: {refused:?}");
    if reason == Reason::TooLarge {
        let limit = info.metadata.get("limit").unwrap_or_else(|| panic!("{what}: no limit in {refused:?}"));
        assert!(refused.message().contains(limit), "{what}: {limit} is not in {:?}", refused.message());
    }
    reason
}
