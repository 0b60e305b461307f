//! Nouns of the store: what goes in and what comes out, already parsed.

use orch8_engine::{SignalKind, Status};
use orch8_model::{
    ContinuityId, IdempotencyKey, InstanceId, LeaseEpoch, Millis, Namespace, NodeName, PlacementEpoch,
    SequenceId, SequenceName, Shard, SignalId, StoreName, TenantId,
};
use orch8_seal::Digest;

/// Where a tenant's rows are, as the control plane says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub tenant: TenantId,
    pub store: StoreName,
    pub epoch: PlacementEpoch,
}

/// The only way to a tenant's rows, and made from a placement alone. Writes need it to be the stored placement in a mode
/// that lets it write; reads need the stored placement, in any mode.
///
/// There is no handle of a tenant as such:
///
/// ```compile_fail
/// # use orch8_data_plane::store::TenantHandle;
/// # use orch8_model::{PlacementEpoch, TenantId};
/// # fn handle(tenant: TenantId) -> TenantHandle {
/// TenantHandle { tenant, placement: PlacementEpoch::default() }
/// # }
/// ```
///
/// With a placement there is:
///
/// ```
/// # use orch8_data_plane::store::{Placement, TenantHandle};
/// # fn handle(placement: &Placement) -> TenantHandle {
/// TenantHandle::of(placement)
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TenantHandle {
    pub(crate) tenant: TenantId,
    pub(crate) placement: PlacementEpoch,
}

impl TenantHandle {
    /// What this placement gives a right to.
    pub fn of(placement: &Placement) -> Self {
        Self { tenant: placement.tenant.clone(), placement: placement.epoch }
    }

    /// Whose rows.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }
}

/// A shard lease this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub shard: Shard,
    pub epoch: LeaseEpoch,
}

/// Answer to `raise`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raised {
    Won {
        lease: Lease,
        commit_seq: u64,
    },
    /// Somebody holds this epoch or a higher one.
    Stale {
        held: LeaseEpoch,
        by: NodeName,
    },
}

/// Who may write a tenant's rows here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceMode {
    Active,
    Draining,
    Sealed,
    Guest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub tenant: TenantId,
    pub placement: PlacementEpoch,
    pub mode: FenceMode,
    /// Weight in the round robin, at least 1.
    pub weight: u64,
}

/// The instance row at birth.
#[derive(Clone, Debug, PartialEq)]
pub struct BirthRow {
    pub instance: InstanceId,
    pub continuity: ContinuityId,
    pub sequence: SequenceId,
    pub namespace: Namespace,
    /// 0 low … 3 critical.
    pub priority: u8,
    pub timezone: String,
    /// JSON text of `context.data` and `context.config`.
    pub data: String,
    pub config: String,
    /// JSON text; `{}` when none was given.
    pub metadata: String,
    pub created_at: Millis,
    /// Not before this instant.
    pub fire_at: Millis,
}

/// One start, with its idempotency key and the hash of its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub birth: BirthRow,
    pub once: Option<(IdempotencyKey, Digest)>,
}

/// Answer to one start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    New(InstanceId),
    /// Same key, same body.
    Deduplicated(InstanceId),
    /// Same key, other body.
    Mismatch(InstanceId),
}

/// One turn to append.
#[derive(Clone, Debug)]
pub struct TurnWrite {
    pub shard: Shard,
    pub tenant: TenantHandle,
    pub instance: InstanceId,
    pub turn_no: u64,
    pub at: Millis,
    /// JSON text of the turn record.
    pub body: String,
    /// JSON text of the state after this turn, every so often.
    pub snapshot: Option<String>,
    /// Set when the listed state differs from what the row says.
    pub status: Option<Status>,
    pub closing: Option<Closing>,
    /// Inbox rows that this turn absorbed; deleted with it.
    pub mail: Vec<i64>,
    /// Timers beyond the wheel's reach, to be found again after a restart.
    pub timers: Vec<TimerRow>,
    /// The ready row this turn answers, if it came from one; deleted with it.
    pub ready: bool,
}

/// The end of an instance.
#[derive(Clone, Debug)]
pub struct Closing {
    pub closed_at: Millis,
    /// JSON text of the error object.
    pub error: Option<String>,
}

/// A batch for one transaction.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    pub leases: Vec<Lease>,
    pub turns: Vec<TurnWrite>,
}

/// Answer to one turn of a batch; a bad turn never fails its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnAnswer {
    Done,
    /// The shard's lease or the tenant's fence is not ours: nothing was written for it.
    Fenced,
    /// That turn is not the next one (its number exists already, or one is missing before it), or the instance is
    /// closed or unknown: read it again.
    Lost,
    /// A closing turn found mail it had not absorbed: read the mail, turn again.
    HasMail,
}

/// A far timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerRow {
    pub instance: InstanceId,
    pub node: u64,
    pub due_at: Millis,
}

/// A claimed ready row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    pub instance: InstanceId,
    pub tenant: TenantId,
}

/// An instance as the list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceRow {
    pub tenant: TenantHandle,
    pub shard: Shard,
    pub birth: BirthRow,
    pub status: Status,
    pub closed_at: Option<Millis>,
    pub error: Option<String>,
}

/// Everything needed to go on with an instance.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub row: InstanceRow,
    /// (turn number of the snapshot, its JSON text)
    pub snapshot: Option<(u64, String)>,
    /// Turns after the snapshot, rising: (turn number, instant, JSON text of the record).
    pub tail: Vec<JournalRow>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRow {
    pub turn_no: u64,
    pub at: Millis,
    pub body: String,
}

/// A message to an instance, before it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub instance: InstanceId,
    pub signal: SignalId,
    pub kind: SignalKind,
    pub at: Millis,
}

/// Answer to `send`. Missing and foreign are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Stored,
    Duplicate,
    Terminal,
    Full,
    Missing,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    pub seq: i64,
    pub instance: InstanceId,
    pub tenant: TenantId,
    pub body: MailBody,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MailBody {
    pub signal: SignalId,
    pub kind: SignalKind,
}

/// A checked document to store.
#[derive(Clone, Debug)]
pub struct NewSequence {
    /// When the document named one.
    pub id: Option<SequenceId>,
    /// Used when it did not.
    pub fresh_id: SequenceId,
    pub namespace: Namespace,
    pub name: SequenceName,
    pub version: Option<i32>,
    pub deprecated: bool,
    pub sha256: Digest,
    /// As submitted, byte for byte.
    pub document: Vec<u8>,
    pub created_at: Millis,
}

/// Answer to `publish`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequencePublished {
    New {
        id: SequenceId,
        version: i32,
    },
    /// No version was named and the newest has this content.
    Unchanged {
        id: SequenceId,
        version: i32,
    },
    /// The id, or (namespace, name, version), is taken.
    Taken {
        id: SequenceId,
        identical: bool,
    },
    /// There is no version number left.
    NoVersionLeft,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceRow {
    pub id: SequenceId,
    pub namespace: Namespace,
    pub name: SequenceName,
    pub version: i32,
    pub deprecated: bool,
    pub sha256: Digest,
    /// Empty in lists.
    pub document: Vec<u8>,
    pub created_at: Millis,
}

/// Keyset of a page: strictly older than (created_at, id).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAfter {
    pub created_at: Millis,
    pub id: InstanceId,
}

/// What a list is asked for; empty fields do not filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceFilter {
    pub statuses: Vec<Status>,
    pub namespace: Option<Namespace>,
    pub sequence: Option<SequenceId>,
    pub sequence_name: Option<SequenceName>,
    pub created_after: Option<Millis>,
    pub created_before: Option<Millis>,
}
