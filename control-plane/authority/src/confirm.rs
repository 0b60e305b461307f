//! What an owner says of how far it has come, against what was heard before. A store counts its write transactions and
//! never counts down; one that does was restored from a backup, and what was committed since is gone.

use orch8_model::LeaseEpoch;

/// How far a shard's owner was heard to have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    pub epoch: LeaseEpoch,
    /// Write transactions of the shard's owners so far.
    pub commit_seq: u64,
    /// The highest number that was followed by a lower one under this epoch; 0: none was.
    pub fell_from: u64,
}

/// What is to be made of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// Nothing new, or said under an epoch that has passed.
    Nothing,
    /// To be kept.
    Rose(Confirmed),
    /// To be kept, and to be told to people.
    Fell(Confirmed),
}

/// Judges a number that is heard under an epoch. A higher epoch begins anew: its owner read what the store holds now.
pub fn judge_confirmation(known: Option<Confirmed>, epoch: LeaseEpoch, commit_seq: u64) -> Hearing {
    let anew = Confirmed { epoch, commit_seq, fell_from: 0 };
    let Some(known) = known.filter(|known| known.epoch >= epoch) else { return Hearing::Rose(anew) };
    if known.epoch > epoch || known.commit_seq == commit_seq {
        return Hearing::Nothing;
    }
    if commit_seq > known.commit_seq {
        return Hearing::Rose(Confirmed { commit_seq, ..known });
    }
    Hearing::Fell(Confirmed { commit_seq, fell_from: known.fell_from.max(known.commit_seq), ..known })
}

/// How far above its lease an epoch in a store may be to be believed. Epochs rise by one with each owner; a control
/// plane restored from an old backup is behind by as many owners as there were since, never by this many.
pub const EPOCH_LEAP_MAX: u64 = 1_000_000;

/// May a node's word be believed, that the store holds `stored` where it was to take `lease`? An epoch near the end of
/// all numbers would leave none for the owners to come.
pub fn is_believable(lease: LeaseEpoch, stored: LeaseEpoch) -> bool {
    stored >= lease && stored.get() - lease.get() <= EPOCH_LEAP_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(n: u64) -> LeaseEpoch {
        LeaseEpoch::new(n).expect("small")
    }

    #[test]
    fn a_number_that_falls_under_its_epoch_is_told_and_stays_told_until_the_epoch_rises() {
        let mut known = None;
        for (at, seq, fell, fell_from) in [
            (2, 10, false, 0),
            (2, 12, false, 0),
            (2, 7, true, 12),
            (2, 9, false, 12),
            (1, 3, false, 12),
            (2, 8, true, 12),
            (2, 30, false, 12),
            (2, 29, true, 30),
            (3, 5, false, 0),
        ] {
            let heard = judge_confirmation(known, epoch(at), seq);
            assert_eq!(matches!(heard, Hearing::Fell(_)), fell, "{at} {seq}");
            match heard {
                Hearing::Nothing => {}
                Hearing::Rose(next) | Hearing::Fell(next) => known = Some(next),
            }
            assert_eq!(known.map(|k| k.fell_from), Some(fell_from), "{at} {seq}");
        }
    }

    #[test]
    fn an_epoch_that_leaves_no_room_is_not_believed() {
        assert!(is_believable(epoch(3), epoch(3)));
        assert!(is_believable(epoch(3), epoch(3 + EPOCH_LEAP_MAX)));
        assert!(!is_believable(epoch(3), epoch(2)), "lower is no reason to refuse");
        assert!(!is_believable(epoch(3), epoch(4 + EPOCH_LEAP_MAX)));
        assert!(!is_believable(epoch(3), epoch(LeaseEpoch::MAX)));
    }
}
