//! SequenceService.

use orch8_model::{Fault, SequenceId, TenantId, limits::DOCUMENT_BYTES_MAX};
use orch8_proto::{
    door::{self, Keyset, PageQuery},
    status,
    v1::{self, sequence_service_server::SequenceService},
};
use tonic::{Request, Response, Status};

use super::{now, tenant, wire};
use crate::{
    app::{self, DataPlane, SequenceRef},
    store::SequenceRow,
};

/// The service.
#[derive(Clone, Debug)]
pub struct Sequences(pub DataPlane);

#[tonic::async_trait]
impl SequenceService for Sequences {
    async fn publish_sequence(
        &self,
        request: Request<v1::PublishSequenceRequest>,
    ) -> Result<Response<v1::PublishSequenceResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let document = document(request.into_inner().document).map_err(status::of)?;
        let done = app::publish_sequence(&self.0, &tenant, document, now()).await.map_err(status::of)?;
        Ok(Response::new(v1::PublishSequenceResponse {
            sequence_id: done.id.to_string(),
            namespace: done.namespace.to_string(),
            name: done.name.to_string(),
            version: done.version,
            unchanged: done.unchanged,
            content_sha256: done.sha256.hex(),
            warnings: done.warnings.into_iter().map(wire::warning).collect(),
        }))
    }

    async fn get_sequence(
        &self,
        request: Request<v1::GetSequenceRequest>,
    ) -> Result<Response<v1::GetSequenceResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let r = request.into_inner();
        let which =
            sequence_ref("", &r.sequence_id, &r.namespace, "name", &r.name, r.version).map_err(status::of)?;
        let row = app::get_sequence(&self.0, &tenant, &which).await.map_err(status::of)?;
        Ok(Response::new(v1::GetSequenceResponse { sequence: Some(sequence(row)) }))
    }

    async fn list_sequences(
        &self,
        request: Request<v1::ListSequencesRequest>,
    ) -> Result<Response<v1::ListSequencesResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        list(&self.0, &tenant, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn validate_sequence(
        &self,
        request: Request<v1::ValidateSequenceRequest>,
    ) -> Result<Response<v1::ValidateSequenceResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let document = document(request.into_inner().document).map_err(status::of)?;
        let checked = app::check_sequence(&tenant, &document).map_err(status::of)?;
        Ok(Response::new(v1::ValidateSequenceResponse {
            content_sha256: checked.sha256.hex(),
            blocks: checked.published.program.blocks.len() as u32,
            warnings: checked.published.warnings.into_iter().map(wire::warning).collect(),
        }))
    }
}

async fn list(
    plane: &DataPlane,
    tenant: &TenantId,
    r: v1::ListSequencesRequest,
) -> Result<v1::ListSequencesResponse, Fault> {
    let namespace = door::optional_name("namespace", r.namespace.as_str())?;
    let limit = door::page_size("page_size", r.page_size, wire::PAGE, wire::PAGE_MAX)?;
    let query = PageQuery::new("ListSequences", Some(tenant)).filter(&r.namespace);
    let after = match query.read("page_token", &r.page_token)? {
        None => None,
        Some(mut key) => Some((
            door::name("page_token", key.take_text("page_token")?)?,
            door::name("page_token", key.take_text("page_token")?)?,
            i32::try_from(key.take_int("page_token")?).map_err(|_| wire::bad_token())?,
        )),
    };
    let (rows, more) = app::list_sequences(plane, tenant, namespace.as_ref(), after, limit).await?;
    let next_page_token = match rows.last() {
        Some(last) if more => query.write(
            Keyset::new()
                .with_bytes(last.namespace.as_str())
                .with_bytes(last.name.as_str())
                .with_int(last.version.into()),
        ),
        Some(_) | None => String::new(),
    };
    Ok(v1::ListSequencesResponse { sequences: rows.into_iter().map(sequence).collect(), next_page_token })
}

/// The document's bytes; what they say is checked by publishing itself, which knows every place in them.
fn document(payload: Option<v1::Payload>) -> Result<Vec<u8>, Fault> {
    let payload = door::required("document", payload)?;
    if !matches!(payload.content_type.as_str(), "" | door::JSON) {
        return Err(Fault::invalid("document.content_type", "must be empty or application/json"));
    }
    if payload.data.len() > DOCUMENT_BYTES_MAX {
        return Err(Fault::too_large("document", payload.data.len(), DOCUMENT_BYTES_MAX, "bytes"));
    }
    Ok(payload.data.to_vec())
}

/// Either an id, or a name and a version. `prefix` and `name_field` are for faults. A namespace beside an id says nothing,
/// but has to be one.
pub(super) fn sequence_ref(
    prefix: &str,
    id: &str,
    namespace: &str,
    name_field: &str,
    name: &str,
    version: i32,
) -> Result<SequenceRef, Fault> {
    let at = |field: &str| format!("{prefix}{field}");
    let id = door::optional_id(&at("sequence_id"), id, SequenceId)?;
    let namespace = door::namespace(&at("namespace"), namespace)?;
    if version < 0 {
        return Err(Fault::invalid(at("version"), "must be at least 1, or 0 for the newest"));
    }
    match id {
        Some(_) if !name.is_empty() => {
            Err(Fault::invalid(at("sequence_id"), format!("and {name_field} cannot both be given")))
        }
        Some(_) if version != 0 => {
            Err(Fault::invalid(at("version"), "cannot be given with sequence_id, which is of one version"))
        }
        Some(id) => Ok(SequenceRef::Id(id)),
        None if name.is_empty() => {
            Err(Fault::invalid(at(name_field), "must not be empty, unless sequence_id is given"))
        }
        None => Ok(SequenceRef::Name {
            namespace,
            name: door::name(&at(name_field), name)?,
            version: (version != 0).then_some(version),
        }),
    }
}

fn sequence(row: SequenceRow) -> v1::Sequence {
    v1::Sequence {
        sequence_id: row.id.to_string(),
        namespace: row.namespace.to_string(),
        name: row.name.to_string(),
        version: row.version,
        content_sha256: row.sha256.hex(),
        deprecated: row.deprecated,
        created_at: Some(door::wire_instant(row.created_at)),
        document: (!row.document.is_empty()).then(|| door::wire_text(row.document.into())),
    }
}
