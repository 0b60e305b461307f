//! RPC × role: the one table. A test reads the descriptors and fails when an RPC has no row.

use orch8_model::{Role, Roles};

use Access::{Anyone, OneOf};
use Role::{Client, Node, Operator, PlacementAdmin, Publisher, Worker};

/// Who may call an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever has a good key.
    Anyone,
    /// Whoever has one of these roles.
    OneOf(&'static [Role]),
}

impl Access {
    /// Whether somebody with these roles may call.
    pub fn admits(self, roles: Roles) -> bool {
        match self {
            Anyone => true,
            OneOf(needed) => roles.has_any(needed),
        }
    }
}

const OPERATES: Access = OneOf(&[Operator]);
const RUNS: Access = OneOf(&[Client, Operator]);
const READS_SEQUENCES: Access = OneOf(&[Client, Publisher, Operator]);

/// Path of every RPC, and who may call it.
pub const TABLE: &[(&str, Access)] = &[
    ("/orch8.v1.FleetService/DescribeFleet", OPERATES),
    ("/orch8.v1.FleetService/FindEndpoints", OneOf(&[Client, Worker, Operator])),
    ("/orch8.v1.FleetService/Join", OneOf(&[Node])),
    ("/orch8.v1.FleetService/Watch", OneOf(&[Node])),
    ("/orch8.v1.InstanceService/CancelInstance", RUNS),
    ("/orch8.v1.InstanceService/GetInstance", RUNS),
    ("/orch8.v1.InstanceService/GetOutputs", RUNS),
    ("/orch8.v1.InstanceService/GetTimeline", RUNS),
    ("/orch8.v1.InstanceService/ListInstances", RUNS),
    ("/orch8.v1.InstanceService/StartInstance", RUNS),
    ("/orch8.v1.InstanceService/StartInstances", RUNS),
    ("/orch8.v1.InstanceService/WatchInstance", RUNS),
    ("/orch8.v1.PlacementService/GetPlacement", OneOf(&[Operator, PlacementAdmin])),
    ("/orch8.v1.PlacementService/ListPlacements", OneOf(&[Operator, PlacementAdmin])),
    ("/orch8.v1.PlacementService/ListStores", OneOf(&[Operator, PlacementAdmin])),
    ("/orch8.v1.PlacementService/RegisterStore", OneOf(&[PlacementAdmin])),
    ("/orch8.v1.PlacementService/SetPlacement", OneOf(&[PlacementAdmin])),
    ("/orch8.v1.SequenceService/GetSequence", READS_SEQUENCES),
    ("/orch8.v1.SequenceService/ListSequences", READS_SEQUENCES),
    ("/orch8.v1.SequenceService/PublishSequence", OneOf(&[Publisher, Operator])),
    ("/orch8.v1.SequenceService/ValidateSequence", READS_SEQUENCES),
    ("/orch8.v1.SignalService/SendSignal", RUNS),
    ("/orch8.v1.TenantService/CreateKey", OPERATES),
    ("/orch8.v1.TenantService/CreateTenant", OPERATES),
    ("/orch8.v1.TenantService/GetTenant", OPERATES),
    ("/orch8.v1.TenantService/ListKeys", OPERATES),
    ("/orch8.v1.TenantService/ListTenants", OPERATES),
    ("/orch8.v1.TenantService/RevokeKey", OPERATES),
    ("/orch8.v1.TenantService/WhoAmI", Anyone),
    ("/orch8.v1.WorkerService/ListHandlers", RUNS),
    ("/orch8.v1.WorkerService/ListSessions", RUNS),
    ("/orch8.v1.WorkerService/Session", OneOf(&[Worker])),
];

/// Services that answer without a key: they tell nothing about any tenant.
const OPEN: &[&str] = &[
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
];

/// Whether a path needs no key.
pub fn is_open(path: &str) -> bool {
    OPEN.iter().any(|service| path.starts_with(service))
}

/// The row of a path: its text, fit for a metric label, and who may call.
pub fn row(path: &str) -> Option<(&'static str, Access)> {
    TABLE.iter().copied().find(|(known, _)| *known == path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message;

    use super::*;

    fn declared() -> BTreeSet<String> {
        let set = prost_types::FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET).expect("descriptors");
        let ours = set.file.iter().filter(|file| file.package() == "orch8.v1");
        ours.flat_map(|file| &file.service)
            .flat_map(|s| s.method.iter().map(|m| format!("/orch8.v1.{}/{}", s.name(), m.name())))
            .collect()
    }

    #[test]
    fn every_rpc_has_one_row_and_every_row_an_rpc() {
        let rows: BTreeSet<String> = TABLE.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(rows.len(), TABLE.len(), "a path has two rows");
        assert!(declared().len() > 20, "the descriptors were read");
        assert_eq!(rows, declared());
    }

    #[test]
    fn nothing_of_ours_is_open() {
        for path in declared() {
            assert!(!is_open(&path), "{path}");
        }
        assert!(is_open("/grpc.health.v1.Health/Check"));
        assert!(!is_open("/grpc.health.v1.HealthX/Check"));
    }

    #[test]
    fn nobody_without_a_role_is_admitted_and_no_row_is_out_of_reach() {
        for (path, access) in TABLE {
            if let OneOf(roles) = access {
                assert!(!roles.is_empty(), "{path}");
                assert!(!access.admits(Roles::default()), "{path}");
            }
        }
    }
}
