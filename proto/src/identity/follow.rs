//! The receiving end of `FleetService.Watch`: puts a snapshot that came in parts together, and keeps a ring current.

use super::{Grant, KeyRing};
use crate::v1::WatchResponse;

/// Joins the parts of a group of changes, so that nobody acts on half a snapshot.
#[derive(Debug, Default)]
pub struct Follower {
    pending: Option<WatchResponse>,
    token: u64,
}

impl Follower {
    /// At the beginning: knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The token to watch on from: of the last whole group; 0 = everything.
    pub fn resume_token(&self) -> u64 {
        self.token
    }

    /// Forgets the parts of a group whose stream broke. To be called before every new stream.
    pub fn restart(&mut self) {
        self.pending = None;
    }

    /// Takes one message; answers the whole group with its last part.
    pub fn push(&mut self, part: WatchResponse) -> Option<WatchResponse> {
        let group = match self.pending.take() {
            Some(mut group) => {
                group.placements.extend(part.placements);
                group.keys.extend(part.keys);
                group.resume_token = part.resume_token;
                group.more = part.more;
                group
            }
            None => part,
        };
        if group.more {
            self.pending = Some(group);
            return None;
        }
        self.token = group.resume_token;
        Some(group)
    }
}

impl KeyRing {
    /// Takes up the keys of a whole group. A grant that cannot be read allows nothing and is logged.
    pub fn follow(&self, group: &WatchResponse) {
        let grants = group.keys.iter().filter_map(|wire| match Grant::from_wire(wire) {
            Ok(read) => Some(read),
            Err(fault) => {
                tracing::warn!(why = %fault, "a pushed key cannot be read");
                None
            }
        });
        if group.full { self.replace(grants) } else { self.update(grants) }
    }
}

#[cfg(test)]
mod tests {
    use orch8_model::{Millis, Role};

    use super::*;
    use crate::v1::KeyGrant;

    fn part(full: bool, more: bool, key: u8, token: u64) -> WatchResponse {
        let key = KeyGrant {
            key_sha256: vec![key; 32].into(),
            roles: vec![crate::v1::Role::Node.into()],
            ..Default::default()
        };
        WatchResponse { full, more, placements: vec![], keys: vec![key], resume_token: token }
    }

    #[test]
    fn half_a_snapshot_is_not_acted_on() {
        let (mut follower, ring) = (Follower::new(), KeyRing::new());
        assert_eq!(follower.push(part(true, true, 1, 7)), None);
        follower.restart();
        assert_eq!(follower.resume_token(), 0);

        assert_eq!(follower.push(part(true, true, 1, 7)), None);
        let group = follower.push(part(false, false, 2, 7)).expect("whole");
        ring.follow(&group);
        assert_eq!(follower.resume_token(), 7);
        for key in [1, 2] {
            let caller = ring.principal(&orch8_seal::Digest([key; 32]), Millis(0)).expect("known");
            assert!(caller.roles.has(Role::Node));
        }

        ring.follow(&follower.push(part(true, false, 3, 9)).expect("whole"));
        assert_eq!(ring.principal(&orch8_seal::Digest([1; 32]), Millis(0)), None, "a full group forgets");
    }
}
