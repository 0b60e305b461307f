//! Starting runs: one, or up to 10,000 at once, all or none; with a key, once.

use std::collections::HashMap;

use orch8_model::{
    ContinuityId, Fault, IdempotencyKey, InstanceId, Millis, Reason, SequenceId, TenantId,
    limits::CONTEXT_BYTES_MAX,
};
use orch8_seal::content_hash;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    DataPlane,
    get_sequence::{SequenceRef, find},
    moving, store_fault,
};
use crate::store::{BirthRow, Start, Started};

/// One run to start; sizes of single fields are checked already.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// Proto path of the item, for faults: empty, or `instances[3].`.
    pub field: String,
    pub sequence: SequenceRef,
    /// JSON objects, as they came.
    pub data: (Value, String),
    pub config: (Value, String),
    pub metadata: (Value, String),
    /// 0 low … 3 critical.
    pub priority: u8,
    /// IANA zone.
    pub timezone: String,
    pub fire_at: Option<Millis>,
    pub key: Option<IdempotencyKey>,
}

/// The runs in the order asked. Errors: `NOT_FOUND` for a sequence, `IDEMPOTENCY_MISMATCH` with the existing id,
/// `TOO_LARGE` for data and config together; then nothing is stored.
pub async fn start_instances(
    plane: &DataPlane,
    tenant: &TenantId,
    items: Vec<NewInstance>,
    now: Millis,
) -> Result<Vec<Started>, Fault> {
    let routed = plane.router.route(tenant)?;
    let mut known: HashMap<String, (SequenceId, orch8_model::Namespace)> = HashMap::new();
    let mut starts = Vec::with_capacity(items.len());
    let mut fields = Vec::with_capacity(items.len());
    for item in items {
        let context = item.data.1.len() + item.config.1.len();
        if context > CONTEXT_BYTES_MAX {
            return Err(Fault::too_large(
                format!("{}data", item.field),
                context,
                CONTEXT_BYTES_MAX,
                "bytes (with config)",
            ));
        }
        let (sequence, namespace) = match known.entry(format!("{:?}", item.sequence)) {
            std::collections::hash_map::Entry::Occupied(known) => known.get().clone(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let row = find(&routed, &item.sequence).await?;
                new.insert((row.id, row.namespace)).clone()
            }
        };
        let once = item.key.clone().map(|key| (key, content_hash(&body(&item))));
        fields.push(item.field);
        let id = Uuid::now_v7();
        starts.push(Start {
            birth: BirthRow {
                instance: InstanceId(id),
                continuity: ContinuityId(id),
                sequence,
                namespace,
                priority: item.priority,
                timezone: item.timezone,
                data: item.data.1,
                config: item.config.1,
                metadata: item.metadata.1,
                created_at: now,
                fire_at: item.fire_at.map_or(now, |at| at.max(now)),
            },
            once,
        });
    }
    let started =
        routed.room.store().start(&routed.tenant, starts).await.map_err(store_fault)?.ok_or_else(moving)?;
    for (field, answer) in fields.iter().zip(&started) {
        if let Started::Mismatch(existing) = answer {
            return Err(Fault::field(
                Reason::IdempotencyMismatch,
                format!("{field}idempotency_key"),
                "was used for a start with other content",
            )
            .with("existing_id", existing));
        }
    }
    let mut nudged = std::collections::BTreeSet::new();
    for answer in &started {
        if let Started::New(id) = answer
            && nudged.insert(routed.room.shard(*id))
        {
            routed.room.nudge(*id);
        }
    }
    Ok(started)
}

/// Everything that was asked for but the key itself: what "the same start" means.
fn body(item: &NewInstance) -> Value {
    let sequence = match &item.sequence {
        SequenceRef::Id(id) => json!({ "id": id.to_string() }),
        SequenceRef::Name { namespace, name, version } => {
            json!({ "namespace": namespace.as_str(), "name": name.as_str(), "version": version })
        }
    };
    json!({
        "sequence": sequence,
        "data": item.data.0,
        "config": item.config.0,
        "metadata": item.metadata.0,
        "priority": item.priority,
        "timezone": item.timezone,
        "next_fire_at": item.fire_at.map(|at| at.0),
    })
}
