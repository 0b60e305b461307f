//! What has to be done every minute or so, by any node, by several at once if it so happens.

use orch8_model::Millis;

use super::session::Pool;
use crate::store::StoreError;

pub(super) async fn maintain(_pool: &Pool, _now: Millis) -> Result<(), StoreError> {
    Ok(())
}
