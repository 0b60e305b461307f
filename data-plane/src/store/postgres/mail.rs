//! Messages on their way to an instance: stored by whoever sends, absorbed and deleted by a turn.
//!
//! The sender locks the instance's row before it looks at it, as a closing turn does: one of the two comes first, and
//! the other sees what it did. A transaction carries the messages of one instance only, so that a sender that waits for
//! an instance holds no other.

use std::collections::HashSet;

use orch8_model::{InstanceId, SignalId, TenantId};
use orch8_seal::shard_of;
use sqlx::postgres::PgRow;

use super::{
    PostgresStore,
    claim::lease_args,
    desk::Small,
    fence::{self, Busy},
    fields::{Fields, bucket},
    session::{Args, Pool, Session},
    transaction::Trouble,
};
use crate::store::{
    Lease, Mail, MailBody, Message, Sent, StoreError, TenantHandle,
    codes::{signal_columns, signal_of},
    counts::Counts,
    judge::messages::{Addressed, Target, Targets, judge},
};

pub(super) const OF_SHARD: &str = include_str!("sql/mail_of_shard.sql");
pub(super) const OF_INSTANCE: &str = include_str!("sql/mail_of_instance.sql");
pub(super) const TARGET: &str = "SELECT i.tenant_no, i.closed_at IS NOT NULL FROM instances i
     WHERE i.id = $1 AND i.bucket = $2 FOR NO KEY UPDATE";
pub(super) const KNOWN: &str =
    "SELECT v.n FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS v (n, tenant_no, key)
     JOIN once o ON o.tenant_no = v.tenant_no AND o.kind = 2 AND o.key = v.key";
pub(super) const PENDING: &str = "SELECT count(*) FROM inbox WHERE instance_id = $1";
pub(super) const NUMBER: &str = "UPDATE mail_numbers SET last = last + $2 WHERE shard = $1 RETURNING last";
pub(super) const INBOX: &str = include_str!("sql/send_inbox.sql");
pub(super) const ONCE: &str = "INSERT INTO once (tenant_no, kind, key, instance_id)
     SELECT v.tenant_no, 2, v.key, $3 FROM unnest($1::bigint[], $2::bytea[]) AS v (tenant_no, key)";

/// Rows of one answer about one instance: at 256 KiB a payload, 64 MiB. The rest comes once these are absorbed.
const MAIL_MAX: i64 = 256;

pub(super) async fn of_shard(
    pool: &Pool,
    lease: Lease,
    after: i64,
    limit: u32,
) -> Result<Vec<Mail>, StoreError> {
    let args = || lease_args(lease).with(after).with(i64::from(limit));
    let rows = pool.rows("read of mail", OF_SHARD, args).await?;
    rows.iter().map(mail).collect()
}

pub(super) async fn of_instance(pool: &Pool, instance: InstanceId) -> Result<Vec<Mail>, StoreError> {
    let args = || Args::new().with(instance.0).with(MAIL_MAX);
    let rows = pool.rows("read of mail", OF_INSTANCE, args).await?;
    rows.iter().map(mail).collect()
}

fn mail(row: &PgRow) -> Result<Mail, StoreError> {
    let f = Fields::of("inbox", row);
    let text = |at, column| f.noun(column, std::str::from_utf8(f.bytes(at, column)?).ok());
    let kind = signal_of(f.text(4, "kind")?, text(5, "name")?, text(6, "payload")?);
    Ok(Mail {
        seq: f.int(0, "seq")?,
        instance: f.instance(1, "instance_id")?,
        tenant: f.name(2, "tenant_id", TenantId::parse)?,
        body: MailBody { signal: f.name(3, "signal_id", SignalId::parse)?, kind: f.noun("payload", kind)? },
    })
}

#[derive(Debug)]
pub(super) struct Send {
    pub tenant: TenantHandle,
    pub message: Message,
}

impl Small for Send {
    type Answer = Option<Sent>;
    const DOING: &'static str = "sending of a message";

    fn rows(&self) -> usize {
        2
    }

    fn goes_with(&self, other: &Self) -> bool {
        self.message.instance == other.message.instance
    }

    async fn run_all(all: &[Self], session: &mut Session<'_>) -> Result<Vec<Option<Sent>>, Trouble> {
        let tenants = fence::assert(all.iter().map(|send| &send.tenant), Busy::Wait, session).await?;
        let numbers: Vec<Option<i64>> = all.iter().map(|send| tenants.get(&send.tenant).copied()).collect();
        Counts::add(&session.counts.fenced, numbers.iter().filter(|no| no.is_none()).count());
        let open: Vec<Addressed<'_>> = all
            .iter()
            .zip(&numbers)
            .filter_map(|(send, no)| Some(Addressed::new((*no)?, &send.message)))
            .collect();
        let sent = match open.first() {
            Some(first) => judge(&open, targets(first.message.instance, &open, session).await?),
            None => Vec::new(),
        };
        let stored: Vec<&Addressed<'_>> =
            open.iter().zip(&sent).filter(|(_, sent)| **sent == Sent::Stored).map(|(open, _)| open).collect();
        store(&stored, session).await?;
        let mut sent = sent.into_iter();
        Ok(numbers.iter().map(|no| no.and_then(|_| sent.next())).collect())
    }
}

/// What messages to one instance meet. Foreign and missing are one: no target.
async fn targets(
    instance: InstanceId,
    open: &[Addressed<'_>],
    session: &mut Session<'_>,
) -> Result<Targets, StoreError> {
    let mut found = Targets::default();
    let args = Args::new().with(instance.0).with(bucket(instance.0));
    let rows = session.rows(TARGET, args).await?;
    let Some(row) = rows.first() else { return Ok(found) };
    let f = Fields::of("instances", row);
    let (tenant_no, closed) = (f.int(0, "tenant_no")?, f.flag(1, "closed_at")?);
    let known = known(open, session).await?;
    let theirs = open.iter().enumerate().filter(|(_, to)| to.tenant_no == tenant_no);
    found.targets.extend(theirs.map(|(n, _)| (n, Target { known: known.contains(&n), closed })));
    for row in &session.rows(PENDING, Args::new().with(instance.0)).await? {
        found.pending.insert(instance, Fields::of("inbox", row).narrow(0, "count")?);
    }
    Ok(found)
}

async fn known(open: &[Addressed<'_>], session: &mut Session<'_>) -> Result<HashSet<usize>, StoreError> {
    let args = Args::new()
        .with((0..open.len() as i64).collect::<Vec<_>>())
        .with(open.iter().map(|to| to.tenant_no).collect::<Vec<_>>())
        .with(open.iter().map(|to| to.once.as_slice()).collect::<Vec<_>>());
    let rows = session.rows(KNOWN, args).await?;
    rows.iter().map(|row| Fields::of("once", row).narrow(0, "n")).collect()
}

async fn store(stored: &[&Addressed<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    let Some(first) = stored.first() else { return Ok(()) };
    let instance = first.message.instance;
    let shard = i64::from(shard_of(instance, PostgresStore::SHARDS).0);
    let numbers = session.rows(NUMBER, Args::new().with(shard).with(stored.len() as i64)).await?;
    let Some(row) = numbers.first() else {
        return Err(StoreError::Corrupt { table: "mail_numbers", column: "shard", key: shard.to_string() });
    };
    let last = Fields::of("mail_numbers", row).int(0, "last")?;
    let columns: Vec<_> = stored.iter().map(|to| signal_columns(&to.message.kind)).collect();
    let args = Args::new()
        .with(shard)
        .with(instance.0)
        .with(first.tenant_no)
        .with((0..stored.len() as i64).map(|n| last - (stored.len() as i64 - 1) + n).collect::<Vec<_>>())
        .with(stored.iter().map(|to| to.message.signal.as_str()).collect::<Vec<_>>())
        .with(columns.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>())
        .with(columns.iter().map(|(_, name, _)| name.as_bytes()).collect::<Vec<_>>())
        .with(columns.iter().map(|(_, _, payload)| payload.as_bytes()).collect::<Vec<_>>())
        .with(stored.iter().map(|to| to.message.at.0).collect::<Vec<_>>());
    session.execute(INBOX, args).await?;
    let args = Args::new()
        .with(stored.iter().map(|to| to.tenant_no).collect::<Vec<_>>())
        .with(stored.iter().map(|to| to.once.as_slice()).collect::<Vec<_>>())
        .with(instance.0);
    session.execute(ONCE, args).await.map(drop)
}
