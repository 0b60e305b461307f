//! What has to be done every minute or so, by any node, by several at once if it so happens. Each part takes short
//! locks, gives way where it does not get them, and is done by a later call.

use orch8_model::Millis;

use super::{partition, rings, session::Pool};
use crate::store::StoreError;

pub(super) const DAY_MS: i64 = 86_400_000;

pub(super) async fn maintain(pool: &Pool, now: Millis) -> Result<(), StoreError> {
    partition::make_ahead(pool, now).await?;
    rings::turn_timers(pool, now).await?;
    rings::turn_ready(pool, now).await
}
