//! Many turns in one transaction. The leases are asserted; one statement appends every turn that nothing stands
//! against; for the few that are left the facts are read and judged. Then whatever came with the accepted turns is
//! written.
//!
//! There is one writer, so nothing changes between two statements. A turn that is refused writes nothing and does not
//! touch its neighbours.

use std::collections::{HashMap, HashSet};

use orch8_model::{InstanceId, Shard};

use super::{
    batch::Batch,
    fields::Fields,
    lease,
    session::{Args, Session},
    writer::Write,
};
use crate::store::{
    Commit, Lease, StoreError, TimerRow, TurnAnswer, TurnWrite,
    codes::status_code,
    counts::Counts,
    judge::turns::{Accepted, Change, Evidence, Facts, accepted, changes, judge, stored},
};

pub(super) static APPEND: Batch = Batch::new(include_str!("sql/turn_append.sql"));
pub(super) const GAPS: &str = include_str!("sql/turn_gaps.sql");
pub(super) const APPENDED: &str = "SELECT instance_id FROM journal WHERE rowid BETWEEN ? AND ?";
pub(super) static FACTS: Batch = Batch::new(include_str!("sql/turn_facts.sql"));
pub(super) static MAIL: Batch = Batch::new(include_str!("sql/turn_mail.sql"));
pub(super) static APPEND_JUDGED: Batch = Batch::new(include_str!("sql/turn_append_judged.sql"));
pub(super) static OPEN: Batch = Batch::new(include_str!("sql/turn_open.sql"));
pub(super) static CLOSE: Batch = Batch::new(include_str!("sql/turn_close.sql"));
pub(super) static ERROR: Batch = Batch::new(include_str!("sql/turn_error.sql"));
pub(super) static SNAPSHOT: Batch = Batch::new(include_str!("sql/turn_snapshot.sql"));
pub(super) static READY: Batch = Batch::new(include_str!("sql/turn_ready.sql"));
pub(super) static TIMERS: Batch = Batch::new(include_str!("sql/turn_timers.sql"));
pub(super) static ABSORB: Batch = Batch::new(include_str!("sql/turn_absorb.sql"));

impl Write for Commit {
    type Answer = Vec<TurnAnswer>;
    const DOING: &'static str = "commit of turns";

    fn rows(&self) -> usize {
        self.turns.len()
    }

    async fn run(&self, session: &mut Session<'_>) -> Result<Vec<TurnAnswer>, StoreError> {
        let shards = leases(self, session).await?;
        let appended = append(&self.turns, &shards, session).await?;
        let left: Vec<Left<'_>> =
            self.turns.iter().enumerate().filter(|(n, _)| !appended.contains(n)).collect();
        let (facts, mail) = (facts(&left, session).await?, mail(&left, session).await?);
        let judged = judge(&self.turns, &Evidence { shards, appended, facts, mail });
        let accepted = accepted(&self.turns, &judged);
        append_judged(&accepted, session).await?;
        instances(&accepted, session).await?;
        work(&accepted, session).await?;
        let answers: Vec<TurnAnswer> = judged.iter().map(|j| j.answer).collect();
        Counts::add(&session.counts.turns, accepted.len());
        Counts::add(&session.counts.fenced, answers.iter().filter(|a| **a == TurnAnswer::Fenced).count());
        Ok(answers)
    }
}

/// A turn with its index that was not appended straight away.
type Left<'a> = (usize, &'a TurnWrite);

/// Asserts the leases of the shards that the turns name. Answers which are held.
async fn leases(commit: &Commit, session: &mut Session<'_>) -> Result<HashSet<Shard>, StoreError> {
    let named: HashSet<Shard> = commit.turns.iter().map(|turn| turn.shard).collect();
    let mut leases: Vec<Lease> = commit.leases.clone();
    leases.retain(|lease| named.contains(&lease.shard));
    lease::assert(&leases, session).await
}

/// Appends what nothing stands against. Answers which turns are in the journal now, by index. Of several turns of one
/// instance only the first is tried: the others depend on it, and are judged.
async fn append(
    turns: &[TurnWrite],
    shards: &HashSet<Shard>,
    session: &mut Session<'_>,
) -> Result<HashSet<usize>, StoreError> {
    let mut seen = HashSet::with_capacity(turns.len());
    let firsts: Vec<Left<'_>> = turns
        .iter()
        .enumerate()
        .filter(|(_, turn)| shards.contains(&turn.shard) && stored(turn.turn_no) >= 0)
        .filter(|(_, turn)| seen.insert(turn.instance))
        .collect();
    let written = session
        .batch(&APPEND, &firsts, |args, _, (_, turn)| {
            journal_args(args, turn)
                .int(turn.shard.0)
                .text(turn.tenant.tenant.as_str())
                .int(stored(turn.tenant.placement.get()))
                .int(turn.closing.is_some())
        })
        .await?;
    if written.rows == 0 {
        return Ok(HashSet::new());
    }
    // Rows of a table that only grows are numbered in order: the last ones are those just written.
    let first = written.last_rowid.saturating_sub(written.rows as i64).saturating_add(1);
    let range = || Args::new().int(first).int(written.last_rowid);
    let gaps = session.execute(GAPS, range()).await?;
    if gaps == 0 && written.rows == firsts.len() as u64 {
        return Ok(firsts.into_iter().map(|(n, _)| n).collect());
    }
    let rows = session.rows(APPENDED, range()).await?;
    let mut there = HashSet::with_capacity(rows.len());
    for row in &rows {
        there.insert(Fields::of("journal", row).instance(0, "instance_id")?);
    }
    Ok(firsts.into_iter().filter(|(_, turn)| there.contains(&turn.instance)).map(|(n, _)| n).collect())
}

fn journal_args(args: Args, turn: &TurnWrite) -> Args {
    args.blob(turn.instance.as_bytes()).int(stored(turn.turn_no)).int(turn.at.0).text(&turn.body)
}

async fn facts(left: &[Left<'_>], session: &mut Session<'_>) -> Result<HashMap<usize, Facts>, StoreError> {
    let rows = session
        .batch_rows(&FACTS, left, |args, _, (n, turn)| {
            args.int(*n as i64)
                .blob(turn.instance.as_bytes())
                .int(turn.shard.0)
                .text(turn.tenant.tenant.as_str())
                .int(stored(turn.tenant.placement.get()))
        })
        .await?;
    rows.iter()
        .map(|row| {
            let f = Fields::of("instances", row);
            let facts = Facts {
                ours: f.flag(1, "shard")?,
                writable: f.flag(2, "tenant_no")?,
                closed: f.flag(3, "closed_at")?,
                hot: f.flag(4, "hot")?,
                next: f.narrow(5, "turn_no")?,
            };
            Ok((f.narrow(0, "n")?, facts))
        })
        .collect()
}

async fn mail(
    left: &[Left<'_>],
    session: &mut Session<'_>,
) -> Result<HashMap<InstanceId, Vec<i64>>, StoreError> {
    let closing: HashSet<InstanceId> =
        left.iter().filter(|(_, turn)| turn.closing.is_some()).map(|(_, turn)| turn.instance).collect();
    let closing: Vec<InstanceId> = closing.into_iter().collect();
    let rows = session.batch_rows(&MAIL, &closing, |args, _, id| args.blob(id.as_bytes())).await?;
    let mut mail: HashMap<InstanceId, Vec<i64>> = HashMap::new();
    for row in &rows {
        let f = Fields::of("inbox", row);
        mail.entry(f.instance(1, "instance_id")?).or_default().push(f.int(0, "seq")?);
    }
    Ok(mail)
}

async fn append_judged(turns: &[Accepted<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    let append: Vec<&TurnWrite> =
        turns.iter().filter(|accepted| accepted.judged.append).map(|accepted| accepted.turn).collect();
    session.batch(&APPEND_JUDGED, &append, |args, _, turn| journal_args(args, turn)).await.map(drop)
}

/// Instance rows, errors and snapshots.
async fn instances(turns: &[Accepted<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    let (closed, open): (Vec<Change>, Vec<Change>) =
        changes(turns).into_iter().partition(|change| change.closed_at.is_some());
    session
        .batch(&OPEN, &open, |args, _, change| {
            args.blob(change.instance.as_bytes()).opt_int(change.status.map(status_code))
        })
        .await?;
    session
        .batch(&CLOSE, &closed, |args, _, change| {
            args.blob(change.instance.as_bytes())
                .opt_int(change.status.map(status_code))
                .opt_int(change.closed_at.map(|at| at.0))
        })
        .await?;
    let errors: Vec<(&InstanceId, &str)> = turns
        .iter()
        .filter_map(|Accepted { turn, .. }| Some((&turn.instance, turn.closing.as_ref()?.error.as_deref()?)))
        .collect();
    session.batch(&ERROR, &errors, |args, _, (id, error)| args.blob(id.as_bytes()).text(error)).await?;
    let snapshots: Vec<(&TurnWrite, &str)> =
        turns.iter().filter_map(|Accepted { turn, .. }| Some((*turn, turn.snapshot.as_deref()?))).collect();
    session
        .batch(&SNAPSHOT, &snapshots, |args, _, (turn, body)| {
            args.blob(turn.instance.as_bytes()).int(stored(turn.turn_no)).text(body)
        })
        .await?;
    Ok(())
}

/// What waits: the ready row answered, timers set, mail absorbed.
async fn work(turns: &[Accepted<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    let ready: Vec<&TurnWrite> =
        turns.iter().map(|accepted| accepted.turn).filter(|turn| turn.ready).collect();
    session.batch(&READY, &ready, |args, _, turn| args.blob(turn.instance.as_bytes())).await?;
    let timers: Vec<(&TurnWrite, &TimerRow)> = turns
        .iter()
        .flat_map(|Accepted { turn, .. }| turn.timers.iter().map(|timer| (*turn, timer)))
        .collect();
    session
        .batch(&TIMERS, &timers, |args, _, (turn, timer)| {
            args.int(turn.shard.0).int(timer.due_at.0).blob(turn.instance.as_bytes()).int(timer.node as i64)
        })
        .await?;
    let mail: Vec<(i64, InstanceId)> = turns
        .iter()
        .flat_map(|Accepted { turn, .. }| turn.mail.iter().map(|seq| (*seq, turn.instance)))
        .collect();
    session.batch(&ABSORB, &mail, |args, _, (seq, id)| args.int(*seq).blob(id.as_bytes())).await?;
    Ok(())
}
