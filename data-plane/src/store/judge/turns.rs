//! Which turns of a batch may be written.

use std::collections::{HashMap, HashSet};

use orch8_engine::Status;
use orch8_model::{InstanceId, Millis, Shard};

use crate::store::{TurnAnswer, TurnWrite};

/// What the database says about one turn that was not appended straight away, after those that were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Facts {
    /// The instance belongs to the shard that the turn names.
    pub ours: bool,
    /// The instance is the turn's tenant's, and that tenant's fence lets the turn's placement write.
    pub writable: bool,
    pub closed: bool,
    pub hot: bool,
    /// Number of the turn that would be the next.
    pub next: u64,
}

/// Everything a batch is judged by.
#[derive(Debug, Default)]
pub(in crate::store) struct Evidence {
    /// Shards whose lease is held.
    pub shards: HashSet<Shard>,
    /// Turns that nothing stood against: they are in the journal. By index.
    pub appended: HashSet<usize>,
    /// Of the others, by index; of an instance that does not exist there are none.
    pub facts: HashMap<usize, Facts>,
    /// Mail that waits for instances that want to close.
    pub mail: HashMap<InstanceId, Vec<i64>>,
}

/// A judged turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Judged {
    pub answer: TurnAnswer,
    /// Still has to go into the journal.
    pub append: bool,
    /// The instance was not marked as in memory before this turn.
    pub was_cold: bool,
}

/// Judges in order: a turn sees what the turns before it in the batch did.
pub(in crate::store) fn judge(turns: &[TurnWrite], evidence: &Evidence) -> Vec<Judged> {
    let mut earlier: HashMap<InstanceId, Earlier> = HashMap::new();
    let mut judged = Vec::with_capacity(turns.len());
    for (n, turn) in turns.iter().enumerate() {
        let before = earlier.get(&turn.instance);
        let one = match (evidence.appended.contains(&n), evidence.facts.get(&n)) {
            (true, _) => Judged { answer: TurnAnswer::Done, append: false, was_cold: turn.turn_no == 0 },
            (false, None) if evidence.shards.contains(&turn.shard) => refuse(TurnAnswer::Lost),
            (false, None) => refuse(TurnAnswer::Fenced),
            (false, Some(facts)) => one(turn, facts, evidence, before),
        };
        if one.answer == TurnAnswer::Done {
            let before = earlier.entry(turn.instance).or_default();
            before.next = turn.turn_no.saturating_add(1);
            before.closed = turn.closing.is_some();
            before.absorbed.extend(&turn.mail);
        }
        judged.push(one);
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

fn refuse(answer: TurnAnswer) -> Judged {
    Judged { answer, append: false, was_cold: false }
}

fn one(turn: &TurnWrite, facts: &Facts, evidence: &Evidence, before: Option<&Earlier>) -> Judged {
    if !evidence.shards.contains(&turn.shard) || !facts.ours || !facts.writable {
        return refuse(TurnAnswer::Fenced);
    }
    let next = before.map_or(facts.next, |before| before.next);
    if facts.closed || before.is_some_and(|before| before.closed) || next != turn.turn_no {
        return refuse(TurnAnswer::Lost);
    }
    let absorbed =
        |seq| turn.mail.contains(seq) || before.is_some_and(|before| before.absorbed.contains(seq));
    let mut waiting = evidence.mail.get(&turn.instance).into_iter().flatten();
    if turn.closing.is_some() && !waiting.all(absorbed) {
        return refuse(TurnAnswer::HasMail);
    }
    Judged { answer: TurnAnswer::Done, append: true, was_cold: !facts.hot && before.is_none() }
}

/// A turn that will be written.
pub(in crate::store) struct Accepted<'a> {
    pub turn: &'a TurnWrite,
    pub judged: &'a Judged,
}

/// The turns that will be written, in their order.
pub(in crate::store) fn accepted<'a>(turns: &'a [TurnWrite], judged: &'a [Judged]) -> Vec<Accepted<'a>> {
    let both = turns.iter().zip(judged).filter(|(_, judged)| judged.answer == TurnAnswer::Done);
    both.map(|(turn, judged)| Accepted { turn, judged }).collect()
}

/// What the instance row has to say after the batch.
pub(in crate::store) struct Change {
    pub instance: InstanceId,
    pub status: Option<Status>,
    pub closed_at: Option<Millis>,
}

/// One change per instance whose row says something else than it should: a row can only be updated once by a statement.
pub(in crate::store) fn changes(turns: &[Accepted<'_>]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut at: HashMap<InstanceId, usize> = HashMap::new();
    for Accepted { turn, judged } in turns {
        if turn.status.is_none() && turn.closing.is_none() && !judged.was_cold {
            continue;
        }
        let at = *at.entry(turn.instance).or_insert(changes.len());
        if at == changes.len() {
            changes.push(Change { instance: turn.instance, status: None, closed_at: None });
        }
        changes[at].status = turn.status.or(changes[at].status);
        changes[at].closed_at = turn.closing.as_ref().map(|closing| closing.closed_at);
    }
    changes
}

/// A number that only rises, as stored; −1, which is never stored, when no column holds it.
pub(in crate::store) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(-1)
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

    /// Nothing stands against this turn.
    fn plain(turn: &TurnWrite) -> Facts {
        Facts { ours: true, writable: true, closed: false, hot: true, next: turn.turn_no }
    }

    fn all_plain(turns: &[TurnWrite]) -> HashMap<usize, Facts> {
        turns.iter().map(plain).enumerate().collect()
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
        let plain = plain(&t);
        let table = [
            (plain, TurnAnswer::Done),
            (Facts { hot: false, ..plain }, TurnAnswer::Done),
            (Facts { ours: false, ..plain }, TurnAnswer::Fenced),
            (Facts { writable: false, ..plain }, TurnAnswer::Fenced),
            (Facts { closed: true, ..plain }, TurnAnswer::Lost),
            (Facts { next: 4, ..plain }, TurnAnswer::Lost),
            (Facts { next: 6, ..plain }, TurnAnswer::Lost),
        ];
        for (facts, answer) in table {
            let evidence = Evidence { facts: HashMap::from([(0, facts)]), ..held() };
            assert_eq!(answers(std::slice::from_ref(&t), &evidence), [answer], "{facts:?}");
            let leaseless = Evidence { shards: HashSet::new(), ..evidence };
            assert_eq!(answers(std::slice::from_ref(&t), &leaseless), [TurnAnswer::Fenced], "{facts:?}");
        }
        assert_eq!(answers(std::slice::from_ref(&t), &held()), [TurnAnswer::Lost], "no such instance");
        assert_eq!(answers(&[t], &Evidence::default()), [TurnAnswer::Fenced], "no lease");
    }

    #[test]
    fn what_is_in_the_journal_is_done_and_not_appended_again() {
        let turns = [turn(1, 0), turn(2, 3), turn(3, 4)];
        let cold = Facts { hot: false, ..plain(&turns[2]) };
        let evidence =
            Evidence { appended: HashSet::from([0, 1]), facts: HashMap::from([(2, cold)]), ..held() };
        let done = |append, was_cold| Judged { answer: TurnAnswer::Done, append, was_cold };
        assert_eq!(judge(&turns, &evidence), [done(false, true), done(false, false), done(true, true)]);
    }

    #[test]
    fn turns_of_one_instance_in_one_batch_follow_each_other() {
        let turns = [turn(1, 3), turn(1, 3), turn(1, 4), closing(1, 5, &[]), turn(1, 6), turn(2, 0)];
        let expected = [
            TurnAnswer::Done,
            TurnAnswer::Lost,
            TurnAnswer::Done,
            TurnAnswer::Done,
            TurnAnswer::Lost,
            TurnAnswer::Done,
        ];
        // Nothing was appended straight away; what the database knew before the batch.
        let stale = Facts { next: 3, ..plain(&turns[0]) };
        let mut facts = all_plain(&turns);
        facts.extend((0..5).map(|n| (n, stale)));
        assert_eq!(answers(&turns, &Evidence { facts, ..held() }), expected);
        // The first of each instance was; what the database knew after it.
        let fresh = Facts { next: 4, ..stale };
        let facts = (1..5).map(|n| (n, fresh)).collect();
        assert_eq!(answers(&turns, &Evidence { appended: HashSet::from([0, 5]), facts, ..held() }), expected);
    }

    #[test]
    fn only_a_closing_turn_minds_mail_it_has_not_absorbed() {
        let id = InstanceId(Uuid::from_u128(1));
        let table: [(&[TurnWrite], &[TurnAnswer]); 4] = [
            (&[turn(1, 0)], &[TurnAnswer::Done]),
            (&[closing(1, 0, &[7])], &[TurnAnswer::HasMail]),
            (&[closing(1, 0, &[9, 7])], &[TurnAnswer::Done]),
            (
                &[TurnWrite { mail: vec![7], ..turn(1, 0) }, closing(1, 1, &[9])],
                &[TurnAnswer::Done, TurnAnswer::Done],
            ),
        ];
        for (turns, expected) in table {
            let mail = HashMap::from([(id, vec![7, 9])]);
            let evidence = Evidence { mail, facts: all_plain(turns), ..held() };
            assert_eq!(answers(turns, &evidence), expected);
        }
    }
}
