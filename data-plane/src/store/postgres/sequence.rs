//! Published versions of sequences: immutable, numbered per (tenant, namespace, name).

use orch8_model::{Namespace, SequenceId, SequenceName};
use orch8_seal::Digest;
use sqlx::postgres::PgRow;

use super::{
    fence::{self, handle_args},
    fields::Fields,
    session::{Args, Pool, Session},
    transaction::{Trouble, Write},
};
use crate::store::{
    NewSequence, SequencePublished, SequenceRow, StoreError, TenantHandle,
    pages::{Range, ranges},
};

/// Publishers of a tenant come one after the other, until each has committed. The first number keeps this lock apart
/// from others.
pub(super) const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(1869767544, $1::int)";
/// The newest version, hidden or not: numbers are never used twice.
pub(super) const HIGHEST: &str = "SELECT id, version, sha256 FROM sequences
     WHERE tenant_no = $1 AND namespace = $2 AND name = $3 ORDER BY version DESC LIMIT 1";
pub(super) const BY_ID: &str = "SELECT id, version, sha256 FROM sequences WHERE tenant_no = $1 AND id = $2";
pub(super) const BY_VERSION: &str = "SELECT id, version, sha256 FROM sequences
     WHERE tenant_no = $1 AND namespace = $2 AND name = $3 AND version = $4";
pub(super) const INSERT: &str = "INSERT INTO sequences
     (tenant_no, namespace, name, id, version, deprecated, sha256, created_at, document)
     VALUES ($1::bigint, $2, $3, $4, $5::bigint, $6, $7, $8, $9)";

macro_rules! select {
    ($document:literal, $rest:literal) => {
        concat!(
            "SELECT s.id, s.namespace, s.name, s.version, s.deprecated, s.sha256, s.created_at, ",
            $document,
            " FROM tenant_fences f JOIN sequences s ON s.tenant_no = f.tenant_no
            WHERE f.tenant_id = $1 AND f.placement_epoch = $2 AND ",
            $rest
        )
    };
}

pub(super) const READ_ID: &str = select!("s.document", "s.id = $3");
pub(super) const READ_VERSION: &str =
    select!("s.document", "s.namespace = $3 AND s.name = $4 AND s.version = $5");
pub(super) const READ_NEWEST: &str = select!(
    "s.document",
    "s.namespace = $3 AND s.name = $4 AND NOT s.deprecated ORDER BY s.version DESC LIMIT 1"
);
/// The rest of the name the last page ended in.
pub(super) const LIST_SAME_NAME: &str = select!(
    "''::bytea",
    "NOT s.deprecated AND s.namespace = $3 AND s.name = $4 AND s.version < $5 ORDER BY s.version DESC LIMIT $6"
);
/// Names after it in the same namespace.
pub(super) const LIST_NAMESPACE: &str = select!(
    "''::bytea",
    "NOT s.deprecated AND s.namespace = $3 AND s.name > $4
     ORDER BY s.tenant_no, s.namespace, s.name, s.version DESC LIMIT $5"
);
/// Namespaces after it.
pub(super) const LIST_BEYOND: &str = select!(
    "''::bytea",
    "NOT s.deprecated AND s.namespace > $3
     ORDER BY s.tenant_no, s.namespace, s.name, s.version DESC LIMIT $4"
);

pub(super) struct Publish {
    pub tenant: TenantHandle,
    pub new: NewSequence,
}

impl Write for Publish {
    type Answer = Option<SequencePublished>;
    const DOING: &'static str = "publishing of a sequence";

    async fn run(&self, session: &mut Session<'_>) -> Result<Option<SequencePublished>, Trouble> {
        let Some(tenant_no) = fence::assert_one(&self.tenant, session).await? else { return Ok(None) };
        session.execute(ONE_AT_A_TIME, Args::new().with(tenant_no)).await?;
        Ok(Some(self.publish(tenant_no, session).await?))
    }
}

impl Publish {
    /// Without a version: the newest one if it is the same, else the next. An id or a version that is taken stays so.
    async fn publish(
        &self,
        tenant_no: i64,
        session: &mut Session<'_>,
    ) -> Result<SequencePublished, StoreError> {
        let version = match self.new.version {
            Some(version) => version,
            None => match known(HIGHEST, self.name(tenant_no), session).await? {
                None => 1,
                Some(newest) if newest.sha256 == self.new.sha256 => {
                    return Ok(SequencePublished::Unchanged { id: newest.id, version: newest.version });
                }
                Some(newest) => match newest.version.checked_add(1) {
                    Some(next) => next,
                    None => return Ok(SequencePublished::NoVersionLeft),
                },
            },
        };
        let id = self.new.id.unwrap_or(self.new.fresh_id);
        let same_id = known(BY_ID, Args::new().with(tenant_no).with(id.0), session).await?;
        let same_version = self.name(tenant_no).with(i64::from(version));
        let same_version = known(BY_VERSION, same_version, session).await?;
        if let Some(taken) = same_id.or(same_version) {
            let identical = taken.sha256 == self.new.sha256;
            return Ok(SequencePublished::Taken { id: taken.id, identical });
        }
        session.execute(INSERT, self.row(tenant_no, id, version)).await?;
        Ok(SequencePublished::New { id, version })
    }

    fn name(&self, tenant_no: i64) -> Args {
        Args::new().with(tenant_no).with(self.new.namespace.as_str()).with(self.new.name.as_str())
    }

    fn row(&self, tenant_no: i64, id: SequenceId, version: i32) -> Args {
        self.name(tenant_no)
            .with(id.0)
            .with(i64::from(version))
            .with(self.new.deprecated)
            .with(self.new.sha256.0.as_slice())
            .with(self.new.created_at.0)
            .with(self.new.document.as_slice())
    }
}

/// A version that is there already.
struct Known {
    id: SequenceId,
    version: i32,
    sha256: Digest,
}

async fn known(
    sql: &'static str,
    args: Args,
    session: &mut Session<'_>,
) -> Result<Option<Known>, StoreError> {
    let rows = session.rows(sql, args).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let f = Fields::of("sequences", row);
    Ok(Some(Known {
        id: SequenceId(f.uuid(0, "id")?),
        version: f.narrow(1, "version")?,
        sha256: f.noun("sha256", Digest::from_slice(f.bytes(2, "sha256")?))?,
    }))
}

pub(super) async fn by_id(
    pool: &Pool,
    tenant: &TenantHandle,
    id: SequenceId,
) -> Result<Option<SequenceRow>, StoreError> {
    let row = pool.row("read of a sequence", READ_ID, || handle_args(tenant).with(id.0)).await?;
    row.as_ref().map(sequence_row).transpose()
}

pub(super) async fn named(
    pool: &Pool,
    tenant: &TenantHandle,
    namespace: &Namespace,
    name: &SequenceName,
    version: Option<i32>,
) -> Result<Option<SequenceRow>, StoreError> {
    let args = || handle_args(tenant).with(namespace.as_str()).with(name.as_str());
    let row = match version {
        Some(version) => {
            let args = || args().with(i64::from(version));
            pool.row("read of a sequence", READ_VERSION, args).await?
        }
        None => pool.row("read of a sequence", READ_NEWEST, args).await?,
    };
    row.as_ref().map(sequence_row).transpose()
}

pub(super) async fn list(
    pool: &Pool,
    tenant: &TenantHandle,
    only: Option<&Namespace>,
    after: Option<(Namespace, SequenceName, i32)>,
    limit: u32,
) -> Result<Vec<SequenceRow>, StoreError> {
    let mut page: Vec<SequenceRow> = Vec::new();
    for range in ranges(only, after) {
        let left = (limit as usize).saturating_sub(page.len());
        if left == 0 {
            break;
        }
        let (sql, args): (_, Box<dyn Fn() -> Args + Send + Sync>) = match &range {
            Range::SameName(space, name, version) => (
                LIST_SAME_NAME,
                Box::new(|| {
                    handle_args(tenant).with(space.as_str()).with(name.as_str()).with(i64::from(*version))
                }),
            ),
            Range::Namespace(space, name) => (
                LIST_NAMESPACE,
                Box::new(|| {
                    let name = name.as_ref().map_or("", SequenceName::as_str);
                    handle_args(tenant).with(space.as_str()).with(name)
                }),
            ),
            Range::Beyond(space) => (
                LIST_BEYOND,
                Box::new(|| handle_args(tenant).with(space.as_ref().map_or("", Namespace::as_str))),
            ),
        };
        let rows = pool.rows("list of sequences", sql, || args().with(left as i64)).await?;
        for row in &rows {
            page.push(sequence_row(row)?);
        }
    }
    Ok(page)
}

fn sequence_row(row: &PgRow) -> Result<SequenceRow, StoreError> {
    let f = Fields::of("sequences", row);
    Ok(SequenceRow {
        id: SequenceId(f.uuid(0, "id")?),
        namespace: f.name(1, "namespace", Namespace::parse)?,
        name: f.name(2, "name", SequenceName::parse)?,
        version: f.narrow(3, "version")?,
        deprecated: f.flag(4, "deprecated")?,
        sha256: f.noun("sha256", Digest::from_slice(f.bytes(5, "sha256")?))?,
        created_at: f.millis(6, "created_at")?,
        document: f.bytes(7, "document")?.to_owned(),
    })
}
