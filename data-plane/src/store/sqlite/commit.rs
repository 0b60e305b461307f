//! Many turns in one transaction: assert the leases, read what stands against each turn, judge, write what is left.
//!
//! There is one writer, so nothing can change between the facts and the append. A turn that is refused writes nothing
//! and does not touch its neighbours.

use std::collections::{HashMap, HashSet};

use orch8_engine::Status;
use orch8_model::{InstanceId, Millis, Shard};
use sqlx::sqlite::SqliteRow;

use super::{
    batch::Batch,
    fields::{Fields, status_code},
    judge::{Evidence, Facts, Judged, judge},
    lease,
    session::{Counts, Session},
    writer::Write,
};
use crate::store::{Commit, Lease, StoreError, TimerRow, TurnAnswer, TurnWrite};

pub(super) static FACTS: Batch = Batch::new(include_str!("sql/turn_facts.sql"));
pub(super) static MAIL: Batch = Batch::new(include_str!("sql/turn_mail.sql"));
pub(super) static APPEND: Batch = Batch::new(include_str!("sql/turn_append.sql"));
pub(super) static INSTANCE: Batch = Batch::new(include_str!("sql/turn_instance.sql"));
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
        let evidence = Evidence {
            shards: leases(self, session).await?,
            facts: facts(&self.turns, session).await?,
            mail: mail(&self.turns, session).await?,
        };
        let judged = judge(&self.turns, &evidence);
        let accepted: Vec<Accepted<'_>> = self
            .turns
            .iter()
            .zip(&judged)
            .filter(|(_, judged)| judged.answer == TurnAnswer::Done)
            .map(|(turn, judged)| Accepted { turn, judged })
            .collect();
        append(&accepted, session).await?;
        let answers: Vec<TurnAnswer> = judged.iter().map(|j| j.answer).collect();
        Counts::add(&session.counts.turns, accepted.len());
        Counts::add(&session.counts.fenced, answers.iter().filter(|a| **a == TurnAnswer::Fenced).count());
        Ok(answers)
    }
}

/// A turn that will be written.
struct Accepted<'a> {
    turn: &'a TurnWrite,
    judged: &'a Judged,
}

/// What the instance row has to say after the batch.
struct Change {
    instance: InstanceId,
    status: Option<Status>,
    closed_at: Option<Millis>,
}

/// One change per instance whose row says something else than it should: a row can only be updated once by a statement.
fn changes(turns: &[Accepted<'_>]) -> Vec<Change> {
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

/// Asserts the leases of the shards that the turns name. Answers which are held.
async fn leases(commit: &Commit, session: &mut Session<'_>) -> Result<HashSet<Shard>, StoreError> {
    let named: HashSet<Shard> = commit.turns.iter().map(|turn| turn.shard).collect();
    let mut leases: Vec<Lease> = commit.leases.clone();
    leases.retain(|lease| named.contains(&lease.shard));
    lease::assert(&leases, session).await
}

async fn facts(turns: &[TurnWrite], session: &mut Session<'_>) -> Result<HashMap<usize, Facts>, StoreError> {
    let rows = session
        .batch_rows(&FACTS, turns, |args, n, turn| {
            args.int(n as i64)
                .blob(turn.instance.as_bytes())
                .int(stored(turn.turn_no))
                .int(turn.shard.0)
                .text(turn.tenant.tenant.as_str())
                .int(stored(turn.tenant.placement.get()))
        })
        .await?;
    rows.iter().map(fact).collect()
}

fn fact(row: &SqliteRow) -> Result<(usize, Facts), StoreError> {
    let f = Fields::of("instances", row);
    let facts = Facts {
        ours: f.flag(1, "shard")?,
        writable: f.flag(2, "tenant_no")?,
        closed: f.flag(3, "closed_at")?,
        hot: f.flag(4, "hot")?,
        next: f.narrow(5, "turn_no")?,
        exists: f.flag(6, "id")?,
    };
    Ok((f.narrow(0, "n")?, facts))
}

async fn mail(
    turns: &[TurnWrite],
    session: &mut Session<'_>,
) -> Result<HashMap<InstanceId, Vec<i64>>, StoreError> {
    let closing: Vec<InstanceId> =
        turns.iter().filter(|turn| turn.closing.is_some()).map(|turn| turn.instance).collect();
    let rows = session.batch_rows(&MAIL, &closing, |args, _, id| args.blob(id.as_bytes())).await?;
    let mut mail: HashMap<InstanceId, Vec<i64>> = HashMap::new();
    for row in &rows {
        let f = Fields::of("inbox", row);
        mail.entry(f.instance(1, "instance_id")?).or_default().push(f.int(0, "seq")?);
    }
    Ok(mail)
}

/// Writes the accepted turns: the journal first, then whatever came with them.
async fn append(turns: &[Accepted<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    session
        .batch(&APPEND, turns, |args, _, Accepted { turn, .. }| {
            args.blob(turn.instance.as_bytes()).int(stored(turn.turn_no)).int(turn.at.0).text(&turn.body)
        })
        .await?;
    instances(turns, session).await?;
    work(turns, session).await
}

/// Instance rows, errors and snapshots.
async fn instances(turns: &[Accepted<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    session
        .batch(&INSTANCE, &changes(turns), |args, _, change| {
            args.blob(change.instance.as_bytes())
                .opt_int(change.status.map(status_code))
                .int(change.closed_at.is_none())
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

/// A number that only rises, as stored. Beyond what a column holds it equals no stored number, and is refused.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(-1)
}
