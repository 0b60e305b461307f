//! A task as it travels: from what the owner committed to what the worker reads, and a lease on the way back.

use std::time::Duration;

use bytes::Bytes;
use orch8_model::{ClaimEpoch, Shard, TaskId, TenantId, json};
use orch8_proto::{door, v1};
use prost::Message;
use serde_json::Value;

use super::{ReadyTask, TaskRef};

/// A task made ready for the wire before any lock is taken.
pub(super) struct Prepared {
    pub reference: TaskRef,
    pub tenant: TenantId,
    pub weight: u64,
    pub priority: u8,
    pub shard: Shard,
    pub at_most_once: bool,
    /// Start-to-close.
    pub timeout: Option<Duration>,
    /// Schedule-to-start.
    pub start_within: Option<Duration>,
    /// Bytes of params: what byte credit pays for.
    pub params_bytes: usize,
    /// Bytes on the wire.
    pub wire_bytes: usize,
    /// Complete but for the lane.
    pub wire: Box<v1::Task>,
}

impl Prepared {
    pub fn new(task: &ReadyTask) -> Self {
        let dispatch = &*task.dispatch;
        let params = payload(&dispatch.params);
        let delivery = match dispatch.at_most_once {
            true => v1::Delivery::AtMostOnce,
            false => v1::Delivery::AtLeastOnce,
        };
        let timeout = dispatch.timeout_ms.map(from_ms);
        let params_bytes = params.data.len();
        let wire = Box::new(v1::Task {
            lease: Some(lease(task.reference())),
            route: Some(v1::Route { shard: u32::from(task.shard.0), placement_epoch: task.placement.get() }),
            tenant_id: task.tenant.to_string(),
            instance_id: task.instance.to_string(),
            continuity_id: task.continuity.to_string(),
            lane: String::new(),
            handler: dispatch.handler.clone(),
            block_id: dispatch.block_id.clone(),
            block_path: dispatch.block_path.clone(),
            iteration: dispatch.iteration.clone(),
            params: Some(params),
            context: Some(payload(&dispatch.context)),
            idempotency_key: dispatch.idempotency_key.clone(),
            delivery: delivery.into(),
            timeout: timeout.map(door::wire_duration),
            checkpoint: None,
            traceparent: String::new(),
            sequence_name: task.sequence.to_string(),
        });
        Self {
            reference: task.reference(),
            tenant: task.tenant.clone(),
            weight: task.weight,
            priority: task.priority,
            shard: task.shard,
            at_most_once: dispatch.at_most_once,
            timeout,
            start_within: dispatch.schedule_to_start_ms.map(from_ms),
            params_bytes,
            wire_bytes: wire.encoded_len(),
            wire,
        }
    }
}

/// The lease of a delivery, as workers echo it.
pub(super) fn lease(task: TaskRef) -> v1::Lease {
    v1::Lease { task_id: task.task.to_string(), attempt: task.attempt, claim_epoch: task.claim_epoch.get() }
}

/// The delivery that a worker names. `None`: no lease, or one that this house never wrote.
pub(super) fn reference(lease: Option<&v1::Lease>) -> Option<TaskRef> {
    let lease = lease?;
    Some(TaskRef {
        task: TaskId::parse(&lease.task_id)?,
        attempt: lease.attempt,
        claim_epoch: ClaimEpoch::new(lease.claim_epoch)?,
    })
}

fn payload(value: &Value) -> v1::Payload {
    v1::Payload { data: Bytes::from(json::print(value)), content_type: String::new() }
}

fn from_ms(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
