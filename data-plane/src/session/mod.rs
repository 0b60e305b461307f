//! Worker sessions: credit, one ready queue with deficit round robin, leases that belong to the stream.
//!
//! - [`Sessions`] is the hub of a node: owners offer tasks, streams are served, everything meets in memory.
//! - `board` is the pure core behind one small mutex: who may have which task now. It takes the time as an argument.
//! - `stream` moves frames between a worker and the board; `hello`, `report` and `task` are the doors of the wire.
//!
//! **Invariant:** a task leaves the queue only against credit of a session of its own tenant.
//! **Invariant:** nothing here is written to a store. What a session learns goes to the shard's owner as a
//! [`FromSession`], and the owner judges it; what the owner has committed comes here as a [`ReadyTask`].

mod board;
mod config;
mod hello;
mod report;
mod sessions;
mod stream;
mod task;

use orch8_engine::{Dispatch, HowLost, Outcome};
use orch8_model::{
    ClaimEpoch, ContinuityId, InstanceId, PlacementEpoch, SequenceName, Shard, TaskId, TenantId,
};
use orch8_proto::v1;
use tokio::sync::oneshot;

pub use board::Census;
pub use config::{Bounds, SessionConfig};
pub use sessions::{Offered, Sessions};

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
    /// A worker says it runs a delivery that this node never sent: it was sent before the owner took the shard. `Some`
    /// when the lease still holds; the delivery is this session's from then on.
    Adopt { tenant: TenantId, task: TaskRef, answer: oneshot::Sender<Option<Box<ReadyTask>>> },
}

impl ReadyTask {
    /// The delivery this is.
    pub fn reference(&self) -> TaskRef {
        let Dispatch { task, attempt, claim_epoch, .. } = *self.dispatch;
        TaskRef { task, attempt, claim_epoch }
    }
}
