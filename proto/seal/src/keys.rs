//! Names that are computed, so that everybody who knows the same facts computes the same name.

use orch8_model::{ContinuityId, InstanceId, Shard, TaskId, TenantId};
use uuid::Uuid;

use crate::digest::{Digest, Framed};

/// Where an effect stands in a sequence: independent of epoch, instance and attempt.
#[derive(Clone, Copy, Debug)]
pub struct EffectPath<'a> {
    /// `main`, `on_failure` or `on_cancel`.
    pub tree: &'a str,
    /// Block ids from the root to the step.
    pub path: &'a [&'a str],
    /// Zero-based indexes of the enclosing loops, outermost first.
    pub iteration: &'a [u32],
    /// Rises only when an operator runs the block again.
    pub ordinal: u32,
}

/// SHA-256 of `orch8-effect-key-v1`, NUL, f(tree), u32 #path, f(id)…, u32 #iteration, u32…, u32 ordinal; integers
/// big-endian, f(x) = u64 length then x. Never sent out.
pub fn effect_key(effect: EffectPath<'_>) -> Digest {
    let mut hash =
        Framed::domain("orch8-effect-key-v1").framed(effect.tree.as_bytes()).u32(effect.path.len() as u32);
    for id in effect.path {
        hash = hash.framed(id.as_bytes());
    }
    hash = hash.u32(effect.iteration.len() as u32);
    for index in effect.iteration {
        hash = hash.u32(*index);
    }
    hash.u32(effect.ordinal).finish()
}

/// SHA-256 of `orch8-idempotency-v1`, NUL, f(tenant), the origin's continuity id (16 bytes), the effect key. This is
/// what handlers and providers get: two instances or two tenants never share one.
pub fn idempotency_key(tenant: &TenantId, origin: ContinuityId, effect: &Digest) -> Digest {
    Framed::domain("orch8-idempotency-v1")
        .framed(tenant.as_str().as_bytes())
        .raw(origin.as_bytes())
        .raw(&effect.0)
        .finish()
}

/// The id of a try: the same for every redelivery, another for the next try.
pub fn task_id(instance: InstanceId, node: u64, attempt: u32) -> TaskId {
    let hash = Framed::domain("orch8-task-v1")
        .raw(instance.as_bytes())
        .raw(&node.to_be_bytes())
        .u32(attempt)
        .finish();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.0[..16]);
    TaskId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Which of a store's `count` shards an instance belongs to: first 8 bytes of SHA-256(instance id) mod count.
pub fn shard_of(instance: InstanceId, count: u16) -> Shard {
    let head = Framed::new().raw(instance.as_bytes()).finish().head();
    Shard((head % u64::from(count.max(1))) as u16)
}

/// What an a_b_split divides: first 8 bytes of SHA-256(origin instance id, NUL, block id).
pub fn split_point(origin: Uuid, block_id: &str) -> u64 {
    Framed::new().raw(origin.as_bytes()).raw(&[0]).raw(block_id.as_bytes()).finish().head()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_key_is_what_the_specification_computed() {
        let key =
            effect_key(EffectPath { tree: "main", path: &["items", "pay"], iteration: &[2], ordinal: 0 });
        assert_eq!(key.hex(), "2f51b5653f109c9185a50d15fb0bdd1b5a26dadd62797ac74c8bb8265934159a");
        let tenant = TenantId::parse("acme").expect("a name");
        let origin = ContinuityId::parse("00000000-0000-7000-8000-000000000001").expect("an id");
        assert_eq!(
            idempotency_key(&tenant, origin, &key).hex(),
            "feebf2925a18b273e303ee42bf672520281f753cfb0cf8f97d815f80805feafa"
        );
    }

    #[test]
    fn a_split_point_is_what_the_specification_computed() {
        let origin = Uuid::parse_str("00000000-0000-4000-8000-000000000001").expect("a uuid");
        assert_eq!(split_point(origin, "ab"), 0x2056_5ac2_747e_a07e);
    }
}
