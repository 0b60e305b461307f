//! Worker sessions: credit, one ready queue with deficit round robin, leases that belong to the stream.
//!
//! Nothing here is written to a store. What a session learns goes to the shard's owner as a [`FromSession`]; what the
//! owner has committed comes here as a [`ReadyTask`].

use orch8_engine::{Dispatch, HowLost, Outcome};
use orch8_model::{
    ClaimEpoch, ContinuityId, InstanceId, PlacementEpoch, SequenceName, Shard, TaskId, TenantId,
};
use orch8_proto::v1;
use tokio::sync::oneshot;

/// A committed try that wants a worker.
#[derive(Debug)]
pub struct ReadyTask {
    pub tenant: TenantId,
    /// Weight of the tenant in the round robin.
    pub weight: u64,
    /// 0 low … 3 critical; order within the tenant, then age.
    pub priority: u8,
    pub instance: InstanceId,
    pub continuity: ContinuityId,
    pub sequence: SequenceName,
    pub shard: Shard,
    pub placement: PlacementEpoch,
    pub dispatch: Box<Dispatch>,
}

/// Which delivery of which try of which instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskRef {
    pub task: TaskId,
    pub attempt: u32,
    pub claim_epoch: ClaimEpoch,
}

/// What a session tells the owner of a task's shard.
#[derive(Debug)]
pub enum FromSession {
    /// A worker reported. The answer is sent after the commit; a dropped sender means RETRY_LATER.
    Reported { tenant: TenantId, task: TaskRef, outcome: Outcome, answer: oneshot::Sender<v1::ResultAck> },
    /// No outcome of this delivery will come.
    Lost { task: TaskRef, how: HowLost },
}
