//! May a placement be replaced? Only by one with a strictly higher epoch: a writer from the past changes nothing.

use orch8_model::PlacementEpoch;

/// Verdict on a proposed placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// It may be written, if the stored epoch is still the one judged.
    Proceed,
    /// The stored epoch is this one, and not lower than the proposed.
    Stale(PlacementEpoch),
}

/// Judges `proposed` against what is stored.
pub fn judge_placement(stored: Option<PlacementEpoch>, proposed: PlacementEpoch) -> Advance {
    match stored {
        Some(stored) if stored >= proposed => Advance::Stale(stored),
        Some(_) | None => Advance::Proceed,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn of_any_order_of_writers_the_highest_epoch_stays(epochs in prop::collection::vec(1u64..1000, 1..40)) {
            let mut stored = None;
            for epoch in &epochs {
                let epoch = PlacementEpoch::new(*epoch).expect("small");
                if judge_placement(stored, epoch) == Advance::Proceed {
                    prop_assert!(stored.is_none_or(|s| s < epoch), "an epoch only rises");
                    stored = Some(epoch);
                }
            }
            prop_assert_eq!(stored.map(PlacementEpoch::get), epochs.iter().max().copied());
        }
    }
}
