//! Published versions of sequences: immutable, numbered per (tenant, namespace, name).

use orch8_model::{Namespace, SequenceId, SequenceName};
use orch8_seal::Digest;
use sqlx::sqlite::SqliteRow;

use super::{
    fence::{self, handle_args},
    fields::Fields,
    session::{Args, Reader, Session},
    writer::Write,
};
use crate::store::{
    NewSequence, SequencePublished, SequenceRow, StoreError, TenantHandle,
    pages::{Range, ranges},
};

/// The newest version, hidden or not: numbers are never used twice.
pub(super) const HIGHEST: &str = "SELECT id, version, sha256 FROM sequences
     WHERE tenant_no = ? AND namespace = ? AND name = ? ORDER BY version DESC LIMIT 1";
pub(super) const BY_ID: &str = "SELECT id, version, sha256 FROM sequences WHERE tenant_no = ? AND id = ?";
pub(super) const BY_VERSION: &str = "SELECT id, version, sha256 FROM sequences
     WHERE tenant_no = ? AND namespace = ? AND name = ? AND version = ?";
pub(super) const INSERT: &str = "INSERT INTO sequences
     (tenant_no, id, namespace, name, version, deprecated, sha256, created_at, document)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

macro_rules! select {
    ($document:literal, $rest:literal) => {
        concat!(
            "SELECT s.id, s.namespace, s.name, s.version, s.deprecated, s.sha256, s.created_at, ",
            $document,
            " FROM tenant_fences f CROSS JOIN sequences s ON s.tenant_no = f.tenant_no
            WHERE f.tenant_id = ?1 AND f.placement_epoch = ?2 AND ",
            $rest
        )
    };
}

pub(super) const READ_ID: &str = select!("s.document", "s.id = ?3");
pub(super) const READ_VERSION: &str =
    select!("s.document", "s.namespace = ?3 AND s.name = ?4 AND s.version = ?5");
pub(super) const READ_NEWEST: &str = select!(
    "s.document",
    "s.namespace = ?3 AND s.name = ?4 AND s.deprecated = 0 ORDER BY s.version DESC LIMIT 1"
);
/// The rest of the name the last page ended in.
pub(super) const LIST_SAME_NAME: &str = select!(
    "x''",
    "s.deprecated = 0 AND s.namespace = ?3 AND s.name = ?4 AND s.version < ?5 ORDER BY s.version DESC LIMIT ?6"
);
/// Names after it in the same namespace.
pub(super) const LIST_NAMESPACE: &str = select!(
    "x''",
    "s.deprecated = 0 AND s.namespace = ?3 AND s.name > ?4
     ORDER BY s.namespace, s.name, s.version DESC LIMIT ?5"
);
/// Namespaces after it.
pub(super) const LIST_BEYOND: &str = select!(
    "x''",
    "s.deprecated = 0 AND s.namespace > ?3 ORDER BY s.namespace, s.name, s.version DESC LIMIT ?4"
);

pub(super) struct Publish {
    pub tenant: TenantHandle,
    pub new: NewSequence,
}

impl Write for Publish {
    type Answer = Option<SequencePublished>;
    const DOING: &'static str = "publishing of a sequence";

    fn rows(&self) -> usize {
        1
    }

    async fn run(&self, session: &mut Session<'_>) -> Result<Option<SequencePublished>, StoreError> {
        let Some(tenant_no) = fence::assert(&self.tenant, session).await? else { return Ok(None) };
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
            None => match self.known(HIGHEST, self.name(tenant_no), session).await? {
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
        let same_id = self.known(BY_ID, Args::new().int(tenant_no).blob(id.as_bytes()), session).await?;
        let same_version = self.known(BY_VERSION, self.name(tenant_no).int(version), session).await?;
        if let Some(taken) = same_id.or(same_version) {
            let identical = taken.sha256 == self.new.sha256;
            return Ok(SequencePublished::Taken { id: taken.id, identical });
        }
        session.execute(INSERT, self.row(tenant_no, id, version)).await?;
        Ok(SequencePublished::New { id, version })
    }

    fn name(&self, tenant_no: i64) -> Args {
        Args::new().int(tenant_no).text(self.new.namespace.as_str()).text(self.new.name.as_str())
    }

    fn row(&self, tenant_no: i64, id: SequenceId, version: i32) -> Args {
        Args::new()
            .int(tenant_no)
            .blob(id.as_bytes())
            .text(self.new.namespace.as_str())
            .text(self.new.name.as_str())
            .int(version)
            .int(self.new.deprecated)
            .blob(&self.new.sha256.0)
            .int(self.new.created_at.0)
            .blob(&self.new.document)
    }

    async fn known(
        &self,
        sql: &'static str,
        args: Args,
        session: &mut Session<'_>,
    ) -> Result<Option<Known>, StoreError> {
        let Some(row) = session.row(sql, args).await? else { return Ok(None) };
        let f = Fields::of("sequences", &row);
        Ok(Some(Known {
            id: f.bytes(0, "id", SequenceId::from_slice)?,
            version: f.narrow(1, "version")?,
            sha256: f.bytes(2, "sha256", Digest::from_slice)?,
        }))
    }
}

/// A version that is there already.
struct Known {
    id: SequenceId,
    version: i32,
    sha256: Digest,
}

pub(super) async fn by_id(
    reader: &Reader,
    tenant: &TenantHandle,
    id: SequenceId,
) -> Result<Option<SequenceRow>, StoreError> {
    let row = reader.row("read of a sequence", READ_ID, handle_args(tenant).blob(id.as_bytes())).await?;
    row.as_ref().map(sequence_row).transpose()
}

pub(super) async fn named(
    reader: &Reader,
    tenant: &TenantHandle,
    namespace: &Namespace,
    name: &SequenceName,
    version: Option<i32>,
) -> Result<Option<SequenceRow>, StoreError> {
    let args = handle_args(tenant).text(namespace.as_str()).text(name.as_str());
    let (sql, args) = match version {
        Some(version) => (READ_VERSION, args.int(version)),
        None => (READ_NEWEST, args),
    };
    reader.row("read of a sequence", sql, args).await?.as_ref().map(sequence_row).transpose()
}

pub(super) async fn list(
    reader: &Reader,
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
        let args = handle_args(tenant);
        let (sql, args) = match &range {
            Range::SameName(space, name, version) => {
                (LIST_SAME_NAME, args.text(space.as_str()).text(name.as_str()).int(*version))
            }
            Range::Namespace(space, name) => {
                let name = name.as_ref().map_or("", SequenceName::as_str);
                (LIST_NAMESPACE, args.text(space.as_str()).text(name))
            }
            Range::Beyond(space) => (LIST_BEYOND, args.text(space.as_ref().map_or("", Namespace::as_str))),
        };
        for row in &reader.rows("list of sequences", sql, args.int(left as i64)).await? {
            page.push(sequence_row(row)?);
        }
    }
    Ok(page)
}

fn sequence_row(row: &SqliteRow) -> Result<SequenceRow, StoreError> {
    let f = Fields::of("sequences", row);
    Ok(SequenceRow {
        id: f.bytes(0, "id", SequenceId::from_slice)?,
        namespace: f.name(1, "namespace", Namespace::parse)?,
        name: f.name(2, "name", SequenceName::parse)?,
        version: f.narrow(3, "version")?,
        deprecated: f.flag(4, "deprecated")?,
        sha256: f.bytes(5, "sha256", Digest::from_slice)?,
        created_at: f.millis(6, "created_at")?,
        document: f.blob(7, "document")?.to_owned(),
    })
}
