//! Which turns of a batch may be written. Pure: facts in, answers out.

use std::collections::{HashMap, HashSet};

use orch8_model::{InstanceId, Shard};

use crate::store::{TurnAnswer, TurnWrite};

/// What the database says about one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// The instance exists.
    pub exists: bool,
    /// The instance belongs to the shard that the turn names.
    pub ours: bool,
    /// The instance is the turn's tenant's, and that tenant's fence lets the turn's placement write.
    pub writable: bool,
    pub closed: bool,
    pub hot: bool,
    /// Number of the turn that would be the next.
    pub next: u64,
}

impl Facts {
    /// A turn that nothing stands against.
    pub fn plain(turn: &TurnWrite) -> Self {
        Self { exists: true, ours: true, writable: true, closed: false, hot: true, next: turn.turn_no }
    }
}

/// Everything a batch is judged by.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Shards whose lease is held.
    pub shards: HashSet<Shard>,
    /// By index of the turn; a turn without an entry is plain.
    pub facts: HashMap<usize, Facts>,
    /// Mail that waits for instances that want to close.
    pub mail: HashMap<InstanceId, Vec<i64>>,
}

/// A judged turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub answer: TurnAnswer,
    /// The instance was not marked as in memory before this turn.
    pub was_cold: bool,
}

/// Judges in order: a turn sees what the turns before it in the batch did.
pub(super) fn judge(turns: &[TurnWrite], evidence: &Evidence) -> Vec<Judged> {
    let mut earlier: HashMap<InstanceId, Earlier> = HashMap::new();
    let mut judged = Vec::with_capacity(turns.len());
    for (n, turn) in turns.iter().enumerate() {
        let mut facts = evidence.facts.get(&n).copied().unwrap_or_else(|| Facts::plain(turn));
        if let Some(before) = earlier.get(&turn.instance) {
            facts = Facts { closed: before.closed, hot: true, next: before.next, ..facts };
        }
        let absorbed = earlier.get(&turn.instance).map(|before| before.absorbed.as_slice());
        let answer = one(turn, facts, evidence, absorbed.unwrap_or_default());
        if answer == TurnAnswer::Done {
            let before = earlier.entry(turn.instance).or_default();
            before.next = turn.turn_no.saturating_add(1);
            before.closed = turn.closing.is_some();
            before.absorbed.extend(&turn.mail);
        }
        judged.push(Judged { answer, was_cold: !facts.hot });
    }
    judged
}

/// What accepted turns of the same batch did to an instance.
#[derive(Debug, Default)]
struct Earlier {
    next: u64,
    closed: bool,
    absorbed: Vec<i64>,
}

fn one(turn: &TurnWrite, facts: Facts, evidence: &Evidence, absorbed: &[i64]) -> TurnAnswer {
    if !evidence.shards.contains(&turn.shard) {
        return TurnAnswer::Fenced;
    }
    if !facts.exists {
        return TurnAnswer::Lost;
    }
    if !facts.ours || !facts.writable {
        return TurnAnswer::Fenced;
    }
    if facts.closed || facts.next != turn.turn_no {
        return TurnAnswer::Lost;
    }
    if turn.closing.is_some() {
        let waiting = evidence.mail.get(&turn.instance).map(Vec::as_slice).unwrap_or_default();
        if waiting.iter().any(|seq| !turn.mail.contains(seq) && !absorbed.contains(seq)) {
            return TurnAnswer::HasMail;
        }
    }
    TurnAnswer::Done
}

#[cfg(test)]
mod tests {
    use orch8_model::{Millis, PlacementEpoch, TenantId};
    use uuid::Uuid;

    use super::*;
    use crate::store::{Closing, TenantHandle};

    fn turn(instance: u128, turn_no: u64) -> TurnWrite {
        TurnWrite {
            shard: Shard(0),
            tenant: TenantHandle {
                tenant: TenantId::parse("acme").expect("a name"),
                placement: PlacementEpoch::default(),
            },
            instance: InstanceId(Uuid::from_u128(instance)),
            turn_no,
            at: Millis(0),
            body: String::new(),
            snapshot: None,
            status: None,
            closing: None,
            mail: Vec::new(),
            timers: Vec::new(),
            ready: false,
        }
    }

    fn closing(instance: u128, turn_no: u64, mail: &[i64]) -> TurnWrite {
        let closing = Some(Closing { closed_at: Millis(1), error: None });
        TurnWrite { closing, mail: mail.to_vec(), ..turn(instance, turn_no) }
    }

    fn held() -> Evidence {
        Evidence { shards: HashSet::from([Shard(0)]), ..Evidence::default() }
    }

    fn answers(turns: &[TurnWrite], evidence: &Evidence) -> Vec<TurnAnswer> {
        judge(turns, evidence).into_iter().map(|j| j.answer).collect()
    }

    #[test]
    fn each_fact_alone_decides() {
        let t = turn(1, 5);
        let plain = Facts::plain(&t);
        let table = [
            (plain, TurnAnswer::Done),
            (Facts { hot: false, ..plain }, TurnAnswer::Done),
            (Facts { exists: false, ours: false, writable: false, ..plain }, TurnAnswer::Lost),
            (Facts { ours: false, ..plain }, TurnAnswer::Fenced),
            (Facts { writable: false, ..plain }, TurnAnswer::Fenced),
            (Facts { closed: true, ..plain }, TurnAnswer::Lost),
            (Facts { next: 4, ..plain }, TurnAnswer::Lost),
            (Facts { next: 6, ..plain }, TurnAnswer::Lost),
        ];
        for (facts, answer) in table {
            let evidence = Evidence { facts: HashMap::from([(0, facts)]), ..held() };
            assert_eq!(answers(std::slice::from_ref(&t), &evidence), [answer], "{facts:?}");
        }
        assert_eq!(answers(&[t], &Evidence::default()), [TurnAnswer::Fenced], "no lease");
    }

    #[test]
    fn turns_of_one_instance_in_one_batch_follow_each_other() {
        let turns = [turn(1, 3), turn(1, 3), turn(1, 4), closing(1, 5, &[]), turn(1, 6), turn(2, 0)];
        // What the database knew before the batch.
        let stale = Facts { next: 3, ..Facts::plain(&turns[0]) };
        let facts = (1..5).map(|n| (n, stale)).collect();
        assert_eq!(
            answers(&turns, &Evidence { facts, ..held() }),
            [
                TurnAnswer::Done,
                TurnAnswer::Lost,
                TurnAnswer::Done,
                TurnAnswer::Done,
                TurnAnswer::Lost,
                TurnAnswer::Done
            ]
        );
    }

    #[test]
    fn only_a_closing_turn_minds_mail_it_has_not_absorbed() {
        let id = InstanceId(Uuid::from_u128(1));
        let evidence = Evidence { mail: HashMap::from([(id, vec![7, 9])]), ..held() };
        assert_eq!(answers(&[turn(1, 0)], &evidence), [TurnAnswer::Done]);
        assert_eq!(answers(&[closing(1, 0, &[7])], &evidence), [TurnAnswer::HasMail]);
        assert_eq!(answers(&[closing(1, 0, &[9, 7])], &evidence), [TurnAnswer::Done]);
        let first = TurnWrite { mail: vec![7], ..turn(1, 0) };
        let then = closing(1, 1, &[9]);
        let facts = HashMap::from([(1, Facts { next: 0, ..Facts::plain(&then) })]);
        let evidence = Evidence { facts, ..evidence };
        assert_eq!(answers(&[first, then], &evidence), [TurnAnswer::Done, TurnAnswer::Done]);
    }
}
