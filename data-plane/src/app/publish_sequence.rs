//! Publishing a sequence: everything is checked, then stored as an immutable version.

use orch8_engine::publish::{self, Problem, Published, Warning};
use orch8_model::{
    Fault, FieldProblem, Millis, Namespace, Reason, SequenceId, SequenceName, TenantId, json,
    limits::PROBLEMS_MAX,
};
use orch8_seal::{Digest, content_hash};
use uuid::Uuid;

use super::{DataPlane, moving, store_fault};
use crate::store::{NewSequence, SequencePublished};

/// A document that can be published.
#[derive(Debug)]
pub struct Checked {
    pub published: Published,
    pub sha256: Digest,
}

/// What is stored now.
#[derive(Debug)]
pub struct PublishedSequence {
    pub id: SequenceId,
    pub namespace: Namespace,
    pub name: SequenceName,
    pub version: i32,
    pub unchanged: bool,
    pub sha256: Digest,
    pub warnings: Vec<Warning>,
}

/// The checks alone. Errors: every problem with its place, under `document`; `TENANT_MISMATCH`.
pub fn check_sequence(tenant: &TenantId, document: &[u8]) -> Result<Checked, Fault> {
    let published = publish::check(document).map_err(problems)?;
    if published.tenant_id.as_ref().is_some_and(|named| named != tenant.as_str()) {
        return Err(Fault::field(
            Reason::TenantMismatch,
            "document/tenant_id",
            "is not the tenant of the credential",
        ));
    }
    let value = json::parse(document)
        .map_err(|p| Fault::field(p.reason, format!("document{}", p.pointer), p.message))?;
    Ok(Checked { published, sha256: content_hash(&value) })
}

/// Stores a document. Errors: as [`check_sequence`]; `SEQUENCE_EXISTS` with the existing id and whether it is identical.
pub async fn publish_sequence(
    plane: &DataPlane,
    tenant: &TenantId,
    document: Vec<u8>,
    now: Millis,
) -> Result<PublishedSequence, Fault> {
    let routed = plane.router.route(tenant)?;
    let Checked { published, sha256 } = check_sequence(tenant, &document)?;
    let Published { namespace, name, warnings, .. } = published;
    let new = NewSequence {
        id: published.id,
        fresh_id: SequenceId(Uuid::now_v7()),
        namespace: namespace.clone(),
        name: name.clone(),
        version: published.version,
        deprecated: published.deprecated,
        sha256,
        document,
        created_at: now,
    };
    let answer =
        routed.room.store().publish(&routed.tenant, new).await.map_err(store_fault)?.ok_or_else(moving)?;
    let (id, version, unchanged) = match answer {
        SequencePublished::New { id, version } => (id, version, false),
        SequencePublished::Unchanged { id, version } => (id, version, true),
        SequencePublished::Taken { id, identical } => {
            return Err(Fault::new(
                Reason::SequenceExists,
                "this id or version is published already; a change needs a new version",
            )
            .with("existing_id", id)
            .with("identical", identical));
        }
        SequencePublished::NoVersionLeft => {
            return Err(Fault::invalid("document/version", "cannot rise any further"));
        }
    };
    Ok(PublishedSequence { id, namespace, name, version, unchanged, sha256, warnings })
}

fn problems(problems: Vec<Problem>) -> Fault {
    let reason = problems
        .first()
        .and_then(|p| Reason::ALL.iter().find(|r| r.as_str() == p.code).copied())
        .unwrap_or(Reason::InvalidField);
    let count = problems.len();
    let mut fault = match problems.first() {
        Some(first) => Fault::new(reason, format!("document{} {}", first.path, first.message)),
        None => Fault::new(reason, "the document cannot be published"),
    };
    if count > 1 {
        fault.message = format!("{} (and {} more)", fault.message, count - 1);
    }
    fault.fields = problems
        .into_iter()
        .take(PROBLEMS_MAX)
        .map(|p| FieldProblem {
            field: format!("document{}", p.path),
            code: p.code.to_owned(),
            description: p.message,
        })
        .collect();
    fault
}
