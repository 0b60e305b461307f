//! What can be checked by someone who does not trust us: digests over canonical bytes, and secrets nobody can guess.
//!
//! The only room with `ring`. It knows bytes and nouns, never a store, a wire or a clock.

mod digest;
mod keys;
mod secret;

pub use digest::{Digest, content_hash, sha256};
pub use keys::{EffectPath, effect_key, idempotency_key, shard_of, split_point, task_id};
pub use secret::{SecretText, random_bytes};
