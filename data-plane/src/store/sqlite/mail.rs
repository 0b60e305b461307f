//! Messages on their way to an instance: stored by whoever sends, absorbed and deleted by a turn.

use orch8_model::{InstanceId, SignalId, TenantId, limits::PENDING_SIGNALS_MAX};
use orch8_seal::shard_of;
use sqlx::sqlite::SqliteRow;

use super::{
    SqliteStore,
    claim::lease_args,
    fence,
    fields::{Fields, signal_columns, signal_of},
    session::{Args, Reader, Session},
    writer::Write,
};
use crate::store::{Lease, Mail, MailBody, Message, Sent, StoreError, TenantHandle};

pub(super) const OF_SHARD: &str = include_str!("sql/mail_of_shard.sql");
pub(super) const OF_INSTANCE: &str = include_str!("sql/mail_of_instance.sql");
pub(super) const TARGET: &str = include_str!("sql/send_target.sql");
pub(super) const STORE: &str = include_str!("sql/send_store.sql");

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
        let Some(tenant_no) = fence::assert(&self.tenant, session).await? else { return Ok(None) };
        let key = once_key(&self.message);
        let sent = self.judge(tenant_no, &key, session).await?;
        if sent == Sent::Stored {
            self.store(tenant_no, &key, session).await?;
        }
        Ok(Some(sent))
    }
}

impl Send {
    /// What the message meets. A known signal is a duplicate even when its instance has closed since.
    async fn judge(&self, tenant_no: i64, key: &[u8], session: &mut Session<'_>) -> Result<Sent, StoreError> {
        let pending_max = PENDING_SIGNALS_MAX as i64;
        let args =
            Args::new().blob(self.message.instance.as_bytes()).int(tenant_no).blob(key).int(pending_max);
        let Some(row) = session.row(TARGET, args).await? else { return Ok(Sent::Missing) };
        let f = Fields::of("instances", &row);
        let (known, closed, pending) = (f.flag(1, "known")?, f.flag(2, "closed_at")?, f.int(3, "pending")?);
        Ok(match (known, closed) {
            (true, _) => Sent::Duplicate,
            (false, true) => Sent::Terminal,
            (false, false) if pending >= pending_max => Sent::Full,
            (false, false) => Sent::Stored,
        })
    }

    async fn store(&self, tenant_no: i64, key: &[u8], session: &mut Session<'_>) -> Result<(), StoreError> {
        let message = &self.message;
        let (kind, name, payload) = signal_columns(&message.kind);
        let args = Args::new()
            .int(shard_of(message.instance, SqliteStore::SHARDS).0)
            .blob(message.instance.as_bytes())
            .text(message.signal.as_str())
            .text(kind)
            .text(name)
            .text(&payload)
            .int(message.at.0)
            .int(tenant_no)
            .blob(key);
        session.execute(STORE, args).await.map(drop)
    }
}

/// The same signal id to two instances is two signals.
fn once_key(message: &Message) -> Vec<u8> {
    [message.instance.as_bytes().as_slice(), message.signal.as_str().as_bytes()].concat()
}
