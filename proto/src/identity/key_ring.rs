//! The keys this process accepts, shared by all its listeners and kept current by whoever knows.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use orch8_model::Millis;
use orch8_seal::Digest;
use tokio::sync::watch;

use super::{Grant, Principal};

/// SHA-256(key) → what the key may do. Clones share one ring. Revoked keys are not kept, so its size is that of the
/// live keys, which the control plane bounds per tenant.
///
/// The lock is held for one look-up, never across an await.
#[derive(Clone, Default)]
pub struct KeyRing(Arc<Ring>);

#[derive(Default)]
struct Ring {
    grants: RwLock<HashMap<Digest, Grant>>,
    /// How often something that was allowed has ceased to be; new keys do not count.
    losses: watch::Sender<u64>,
}

impl KeyRing {
    /// A ring that accepts nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything and accepts these.
    pub fn replace(&self, grants: impl IntoIterator<Item = (Digest, Grant)>) {
        let fresh: HashMap<_, _> = grants.into_iter().filter(|(_, grant)| !grant.revoked).collect();
        let before = std::mem::replace(&mut *self.write(), fresh.clone());
        self.lost(before.iter().any(|(key, grant)| fresh.get(key) != Some(grant)));
    }

    /// Takes up changes; a revoked key is forgotten.
    pub fn update(&self, grants: impl IntoIterator<Item = (Digest, Grant)>) {
        let mut ring = self.write();
        let mut lost = false;
        for (key, grant) in grants {
            let kept = grant.clone();
            let before = if grant.revoked { ring.remove(&key) } else { ring.insert(key, grant) };
            lost |= before.is_some_and(|before| before != kept);
        }
        drop(ring);
        self.lost(lost);
    }

    fn lost(&self, lost: bool) {
        if lost {
            self.0.losses.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Changes whenever somebody who was admitted may not be any more.
    pub(super) fn losses(&self) -> watch::Receiver<u64> {
        self.0.losses.subscribe()
    }

    /// When a key ends by itself, when it is known and does.
    pub(super) fn expires_at(&self, key: &Digest) -> Option<Millis> {
        self.read().get(key).and_then(|grant| grant.expires_at)
    }

    /// The caller with this key, when it is good at this instant.
    pub fn principal(&self, key: &Digest, now: Millis) -> Option<Principal> {
        let ring = self.read();
        let grant = ring.get(key).filter(|grant| grant.is_good(now))?;
        Some(Principal { tenant: grant.tenant.clone(), roles: grant.roles, key: *key })
    }

    /// Whether a caller admitted earlier would still be admitted as the same: for streams that outlive their key.
    pub fn still_admits(&self, principal: &Principal, now: Millis) -> bool {
        self.principal(&principal.key, now).as_ref() == Some(principal)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Digest, Grant>> {
        self.0.grants.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Digest, Grant>> {
        self.0.grants.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRing({} keys)", self.read().len())
    }
}

#[cfg(test)]
mod tests {
    use orch8_model::{Role, Roles};

    use super::*;

    fn grant(revoked: bool) -> Grant {
        let roles: Roles = [Role::Worker].into_iter().collect();
        Grant { tenant: None, roles, expires_at: Some(Millis(100)), revoked }
    }

    #[test]
    fn a_change_is_seen_by_every_clone_at_once() {
        let ring = KeyRing::new();
        let (a, b) = (orch8_seal::sha256(b"a"), orch8_seal::sha256(b"b"));
        let clone = ring.clone();
        ring.replace([(a, grant(false)), (b, grant(true))]);
        let caller = clone.principal(&a, Millis(0)).expect("known");
        assert_eq!(clone.principal(&b, Millis(0)), None);
        assert!(clone.still_admits(&caller, Millis(99)));
        assert!(!clone.still_admits(&caller, Millis(100)), "expired");

        ring.update([(a, grant(true)), (b, grant(false))]);
        assert!(!clone.still_admits(&caller, Millis(0)), "revoked");
        assert!(clone.principal(&b, Millis(0)).is_some());
        assert_eq!(format!("{ring:?}"), "KeyRing(1 keys)");
    }

    #[test]
    fn only_a_loss_is_told_as_one() {
        let ring = KeyRing::new();
        let (a, b) = (orch8_seal::sha256(b"a"), orch8_seal::sha256(b"b"));
        let losses = ring.losses();
        let count = || *losses.borrow();
        ring.update([(a, grant(false))]);
        ring.update([(a, grant(false)), (b, grant(false))]);
        ring.replace([(a, grant(false)), (b, grant(false))]);
        assert_eq!(count(), 0, "more keys, or the same");
        ring.update([(b, grant(true))]);
        assert_eq!(count(), 1, "revoked");
        ring.update([(a, Grant { expires_at: Some(Millis(50)), ..grant(false) })]);
        assert_eq!(count(), 2, "changed");
        ring.replace([]);
        assert_eq!(count(), 3, "forgotten");
        ring.update([(a, grant(true))]);
        assert_eq!(count(), 3, "was not known");
    }
}
