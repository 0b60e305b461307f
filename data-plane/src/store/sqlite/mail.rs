//! Messages on their way to an instance: stored by whoever sends, absorbed and deleted by a turn.

use std::collections::HashSet;

use orch8_model::{InstanceId, SignalId, TenantId};
use orch8_seal::shard_of;
use sqlx::sqlite::SqliteRow;

use super::{
    SqliteStore,
    batch::Batch,
    claim::lease_args,
    fence,
    fields::Fields,
    session::{Args, Reader, Session},
    writer::Write,
};
use crate::store::{
    Lease, Mail, MailBody, Message, Sent, StoreError, TenantHandle,
    codes::{signal_columns, signal_of},
    judge::messages::{Addressed, Target, Targets, judge},
};

pub(super) const OF_SHARD: &str = include_str!("sql/mail_of_shard.sql");
pub(super) const OF_INSTANCE: &str = include_str!("sql/mail_of_instance.sql");
pub(super) static TARGET: Batch = Batch::new(include_str!("sql/send_target.sql"));
pub(super) static PENDING: Batch = Batch::new(include_str!("sql/send_pending.sql"));
pub(super) static INBOX: Batch = Batch::new(include_str!("sql/send_inbox.sql"));
pub(super) static ONCE: Batch = Batch::new(include_str!("sql/send_once.sql"));

/// Rows of one answer about one instance: at 256 KiB a payload, 64 MiB. The rest comes once these are absorbed.
const MAIL_MAX: u32 = 256;

pub(super) async fn of_shard(
    reader: &Reader,
    lease: Lease,
    after: i64,
    limit: u32,
) -> Result<Vec<Mail>, StoreError> {
    let rows = reader.rows("read of mail", OF_SHARD, lease_args(lease).int(after).int(limit)).await?;
    rows.iter().map(mail).collect()
}

pub(super) async fn of_instance(reader: &Reader, instance: InstanceId) -> Result<Vec<Mail>, StoreError> {
    let args = Args::new().blob(instance.as_bytes()).int(MAIL_MAX);
    let rows = reader.rows("read of mail", OF_INSTANCE, args).await?;
    rows.iter().map(mail).collect()
}

fn mail(row: &SqliteRow) -> Result<Mail, StoreError> {
    let f = Fields::of("inbox", row);
    let kind = signal_of(f.text(4, "kind")?, f.text(5, "name")?, f.text(6, "payload")?);
    Ok(Mail {
        seq: f.int(0, "seq")?,
        instance: f.instance(1, "instance_id")?,
        tenant: f.name(2, "tenant_id", TenantId::parse)?,
        body: MailBody { signal: f.name(3, "signal_id", SignalId::parse)?, kind: f.noun("payload", kind)? },
    })
}

pub(super) struct Send {
    pub tenant: TenantHandle,
    pub message: Message,
}

impl Write for Send {
    type Answer = Option<Sent>;
    const DOING: &'static str = "sending of a message";

    fn rows(&self) -> usize {
        2
    }

    async fn run(&self, session: &mut Session<'_>) -> Result<Option<Sent>, StoreError> {
        Ok(Self::run_all(&[self], session).await?.pop().flatten())
    }

    async fn run_all(all: &[&Self], session: &mut Session<'_>) -> Result<Vec<Option<Sent>>, StoreError> {
        let tenants: Vec<&TenantHandle> = all.iter().map(|send| &send.tenant).collect();
        let numbers = fence::assert_all(&tenants, session).await?;
        let open: Vec<Addressed<'_>> = all
            .iter()
            .zip(&numbers)
            .filter_map(|(send, no)| Some(Addressed::new((*no)?, &send.message)))
            .collect();
        let sent = judge(&open, targets(&open, session).await?);
        let stored: Vec<&Addressed<'_>> =
            open.iter().zip(&sent).filter(|(_, sent)| **sent == Sent::Stored).map(|(open, _)| open).collect();
        store(&stored, session).await?;
        let mut sent = sent.into_iter();
        Ok(numbers.iter().map(|no| no.and_then(|_| sent.next())).collect())
    }
}

async fn targets(open: &[Addressed<'_>], session: &mut Session<'_>) -> Result<Targets, StoreError> {
    let mut found = Targets::default();
    let rows = session
        .batch_rows(&TARGET, open, |args, n, to| {
            args.int(n as i64).blob(to.message.instance.as_bytes()).int(to.tenant_no).blob(&to.once)
        })
        .await?;
    for row in &rows {
        let f = Fields::of("instances", row);
        let target = Target { known: f.flag(1, "known")?, closed: f.flag(2, "closed_at")? };
        found.targets.insert(f.narrow(0, "n")?, target);
    }
    let instances: HashSet<InstanceId> = open.iter().map(|to| to.message.instance).collect();
    let instances: Vec<InstanceId> = instances.into_iter().collect();
    for row in &session.batch_rows(&PENDING, &instances, |args, _, id| args.blob(id.as_bytes())).await? {
        let f = Fields::of("inbox", row);
        found.pending.insert(f.instance(0, "instance_id")?, f.narrow(1, "pending")?);
    }
    Ok(found)
}

async fn store(stored: &[&Addressed<'_>], session: &mut Session<'_>) -> Result<(), StoreError> {
    session
        .batch(&INBOX, stored, |args, _, to| {
            let (kind, name, payload) = signal_columns(&to.message.kind);
            args.int(shard_of(to.message.instance, SqliteStore::SHARDS).0)
                .blob(to.message.instance.as_bytes())
                .text(to.message.signal.as_str())
                .text(kind)
                .text(name)
                .text(&payload)
                .int(to.message.at.0)
        })
        .await?;
    session
        .batch(&ONCE, stored, |args, _, to| {
            args.int(to.tenant_no).blob(&to.once).blob(to.message.instance.as_bytes())
        })
        .await?;
    Ok(())
}
