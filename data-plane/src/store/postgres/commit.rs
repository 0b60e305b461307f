//! Many turns in one transaction. Leases and fences are locked; instances that want to close are locked; one statement
//! appends every turn that nothing stands against; for the few that are left the facts are read and judged. Then
//! whatever came with the accepted turns is written.
//!
//! Only the holder of a lease writes about its shard, so nothing it reads here changes before the commit, except for
//! mail, which is why closing instances are locked before their mail is looked at. A turn that is refused writes nothing
//! and does not touch its neighbours.

use std::collections::{HashMap, HashSet};

use orch8_model::{InstanceId, Shard};

use super::{
    fence::{self, Busy},
    fields::{Fields, bucket},
    lease::{self, id_args},
    session::{Args, Session},
    transaction::{Trouble, Write},
};
use crate::store::{
    Commit, Lease, StoreError, TenantHandle, TimerRow, TurnAnswer, TurnWrite,
    codes::status_code,
    counts::Counts,
    judge::turns::{Accepted, Change, Evidence, Facts, accepted, changes, judge, stored},
};

pub(super) const LOCK: &str = include_str!("sql/turn_lock.sql");
pub(super) const APPEND: &str = include_str!("sql/turn_append.sql");
pub(super) const FACTS: &str = include_str!("sql/turn_facts.sql");
pub(super) const MAIL: &str = include_str!("sql/turn_mail.sql");
pub(super) const APPEND_JUDGED: &str = include_str!("sql/turn_append_judged.sql");
pub(super) const CHANGE: &str = include_str!("sql/turn_change.sql");
pub(super) const SNAPSHOT: &str = include_str!("sql/turn_snapshot.sql");
pub(super) const READY: &str = include_str!("sql/turn_ready.sql");
pub(super) const READY_RECENT: &str = concat!(
    include_str!("sql/turn_ready.sql"),
    " AND r.gen = (SELECT position % 8 FROM rings WHERE ring = 'ready')"
);
pub(super) const TIMERS: &str = include_str!("sql/turn_timers.sql");
pub(super) const ABSORB: &str = include_str!("sql/turn_absorb.sql");

impl Write for Commit {
    type Answer = Vec<TurnAnswer>;
    const DOING: &'static str = "commit of turns";

    async fn run(&self, session: &mut Session<'_>) -> Result<Vec<TurnAnswer>, Trouble> {
        let shards = leases(self, session).await?;
        let tenants = self.turns.iter().filter(|turn| shards.contains(&turn.shard)).map(|turn| &turn.tenant);
        let tenants = fence::assert(tenants, Busy::Refuse, session).await?;
        lock(&self.turns, session).await?;
        let appended = append(&self.turns, &shards, &tenants, session).await?;
        let left: Vec<Left<'_>> =
            self.turns.iter().enumerate().filter(|(n, _)| !appended.contains(n)).collect();
        let (facts, mail) = (facts(&left, &tenants, session).await?, mail(&left, session).await?);
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

/// This store's numbers of the tenants that may write.
type Tenants<'a> = HashMap<&'a TenantHandle, i64>;

/// Asserts the leases of the shards that the turns name. Answers which are held.
async fn leases(commit: &Commit, session: &mut Session<'_>) -> Result<HashSet<Shard>, StoreError> {
    let named: HashSet<Shard> = commit.turns.iter().map(|turn| turn.shard).collect();
    let mut leases: Vec<Lease> = commit.leases.clone();
    leases.retain(|lease| named.contains(&lease.shard));
    lease::assert(&leases, session).await
}

/// Locks the instances that want to close. From here on no message reaches them; what did is seen from here on.
async fn lock(turns: &[TurnWrite], session: &mut Session<'_>) -> Result<(), StoreError> {
    let closing: Vec<InstanceId> =
        turns.iter().filter(|turn| turn.closing.is_some()).map(|turn| turn.instance).collect();
    if closing.is_empty() {
        return Ok(());
    }
    session.execute(LOCK, id_args(&closing)).await.map(drop)
}

/// Appends what nothing stands against. Answers which turns are in the journal now, by index. Of several turns of one
/// instance only the first is tried: the others depend on it, and are judged.
async fn append(
    turns: &[TurnWrite],
    shards: &HashSet<Shard>,
    tenants: &Tenants<'_>,
    session: &mut Session<'_>,
) -> Result<HashSet<usize>, StoreError> {
    let mut seen = HashSet::with_capacity(turns.len());
    let firsts: Vec<Left<'_>> = turns
        .iter()
        .enumerate()
        .filter(|(_, turn)| shards.contains(&turn.shard) && stored(turn.turn_no) >= 0)
        .filter(|(_, turn)| tenants.contains_key(&turn.tenant) && seen.insert(turn.instance))
        .collect();
    if firsts.is_empty() {
        return Ok(HashSet::new());
    }
    let args = journal_args(firsts.iter().map(|(_, turn)| *turn))
        .with(firsts.iter().map(|(_, turn)| i64::from(turn.shard.0)).collect::<Vec<_>>())
        .with(firsts.iter().map(|(_, turn)| tenant_no(tenants, turn)).collect::<Vec<_>>())
        .with(firsts.iter().map(|(_, turn)| turn.closing.is_some()).collect::<Vec<_>>());
    let rows = session.rows(APPEND, args).await?;
    if rows.len() == firsts.len() {
        return Ok(firsts.into_iter().map(|(n, _)| n).collect());
    }
    let mut there = HashSet::with_capacity(rows.len());
    for row in &rows {
        there.insert(Fields::of("journal", row).instance(0, "instance_id")?);
    }
    Ok(firsts.into_iter().filter(|(_, turn)| there.contains(&turn.instance)).map(|(n, _)| n).collect())
}

fn journal_args<'t>(turns: impl Iterator<Item = &'t TurnWrite> + Clone) -> Args {
    key_args(turns.clone())
        .with(turns.clone().map(|turn| stored(turn.turn_no)).collect::<Vec<_>>())
        .with(turns.clone().map(|turn| turn.at.0).collect::<Vec<_>>())
        .with(turns.map(|turn| turn.body.as_str()).collect::<Vec<_>>())
}

fn key_args<'t>(turns: impl Iterator<Item = &'t TurnWrite> + Clone) -> Args {
    Args::new()
        .with(turns.clone().map(|turn| bucket(turn.instance.0)).collect::<Vec<_>>())
        .with(turns.map(|turn| turn.instance.0).collect::<Vec<_>>())
}

/// −1, which no tenant has, when the turn's tenant may not write.
fn tenant_no(tenants: &Tenants<'_>, turn: &TurnWrite) -> i64 {
    tenants.get(&turn.tenant).copied().unwrap_or(-1)
}

async fn facts(
    left: &[Left<'_>],
    tenants: &Tenants<'_>,
    session: &mut Session<'_>,
) -> Result<HashMap<usize, Facts>, StoreError> {
    if left.is_empty() {
        return Ok(HashMap::new());
    }
    let args = key_args(left.iter().map(|(_, turn)| *turn))
        .with(left.iter().map(|(n, _)| *n as i64).collect::<Vec<_>>())
        .with(left.iter().map(|(_, turn)| i64::from(turn.shard.0)).collect::<Vec<_>>())
        .with(left.iter().map(|(_, turn)| tenant_no(tenants, turn)).collect::<Vec<_>>());
    let rows = session.rows(FACTS, args).await?;
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
    let mut mail: HashMap<InstanceId, Vec<i64>> = HashMap::new();
    if closing.is_empty() {
        return Ok(mail);
    }
    let ids: Vec<_> = closing.into_iter().map(|id| id.0).collect();
    for row in &session.rows(MAIL, Args::new().with(ids)).await? {
        let f = Fields::of("inbox", row);
        mail.entry(f.instance(1, "instance_id")?).or_default().push(f.int(0, "seq")?);
    }
    Ok(mail)
}

async fn append_judged(turns: &[Accepted<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    let append: Vec<&TurnWrite> =
        turns.iter().filter(|accepted| accepted.judged.append).map(|accepted| accepted.turn).collect();
    if append.is_empty() {
        return Ok(());
    }
    session.execute(APPEND_JUDGED, journal_args(append.into_iter())).await.map(drop)
}

/// Instance rows and snapshots.
async fn instances(turns: &[Accepted<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    let mut changes = changes(turns);
    if !changes.is_empty() {
        changes.sort_unstable_by_key(|change| change.instance);
        session.execute(CHANGE, change_args(&changes, turns)).await?;
    }
    // One per instance: a row can only be written once by a statement.
    let newest: HashMap<InstanceId, (u64, &str)> = turns
        .iter()
        .filter_map(|Accepted { turn, .. }| Some((turn.instance, (turn.turn_no, turn.snapshot.as_deref()?))))
        .collect();
    if newest.is_empty() {
        return Ok(());
    }
    let args = Args::new()
        .with(newest.keys().map(|id| bucket(id.0)).collect::<Vec<_>>())
        .with(newest.keys().map(|id| id.0).collect::<Vec<_>>())
        .with(newest.values().map(|(turn_no, _)| stored(*turn_no)).collect::<Vec<_>>())
        .with(newest.values().map(|(_, body)| *body).collect::<Vec<_>>());
    session.execute(SNAPSHOT, args).await.map(drop)
}

fn change_args(changes: &[Change], turns: &[Accepted<'_>]) -> Args {
    let errors: HashMap<InstanceId, &str> = turns
        .iter()
        .filter_map(|Accepted { turn, .. }| Some((turn.instance, turn.closing.as_ref()?.error.as_deref()?)))
        .collect();
    Args::new()
        .with(changes.iter().map(|change| bucket(change.instance.0)).collect::<Vec<_>>())
        .with(changes.iter().map(|change| change.instance.0).collect::<Vec<_>>())
        .with(changes.iter().map(|change| change.status.map(status_code)).collect::<Vec<_>>())
        .with(changes.iter().map(|change| change.closed_at.map(|at| at.0)).collect::<Vec<_>>())
        .with(changes.iter().map(|change| errors.get(&change.instance).copied()).collect::<Vec<_>>())
}

/// What waits: the ready row answered, timers set, mail absorbed.
async fn work(turns: &[Accepted<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    let ready: Vec<InstanceId> =
        turns.iter().filter(|accepted| accepted.turn.ready).map(|accepted| accepted.turn.instance).collect();
    if !ready.is_empty() {
        // Most are answered soon after they came; each other generation is one more look-up for each.
        let answered = session.execute(READY_RECENT, id_args(&ready)).await?;
        if answered < ready.len() as u64 {
            session.execute(READY, id_args(&ready)).await?;
        }
    }
    let timers: Vec<(&TurnWrite, &TimerRow)> = turns
        .iter()
        .flat_map(|Accepted { turn, .. }| turn.timers.iter().map(|timer| (*turn, timer)))
        .collect();
    if !timers.is_empty() {
        let args = Args::new()
            .with(timers.iter().map(|(turn, _)| i64::from(turn.shard.0)).collect::<Vec<_>>())
            .with(timers.iter().map(|(_, timer)| timer.due_at.0).collect::<Vec<_>>())
            .with(timers.iter().map(|(turn, _)| turn.instance.0).collect::<Vec<_>>())
            .with(timers.iter().map(|(_, timer)| timer.node as i64).collect::<Vec<_>>());
        session.execute(TIMERS, args).await?;
    }
    let mail: Vec<(&TurnWrite, i64)> =
        turns.iter().flat_map(|Accepted { turn, .. }| turn.mail.iter().map(|seq| (*turn, *seq))).collect();
    if !mail.is_empty() {
        let args = Args::new()
            .with(mail.iter().map(|(turn, _)| i64::from(turn.shard.0)).collect::<Vec<_>>())
            .with(mail.iter().map(|(_, seq)| *seq).collect::<Vec<_>>())
            .with(mail.iter().map(|(turn, _)| turn.instance.0).collect::<Vec<_>>());
        session.execute(ABSORB, args).await?;
    }
    Ok(())
}
