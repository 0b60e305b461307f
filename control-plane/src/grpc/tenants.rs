//! TenantService.

use orch8_model::{Fault, TenantId, limits::NAME_BYTES_MAX};
use orch8_proto::{
    door::{self, Keyset, PageQuery},
    identity::{self, wire_roles},
    status,
    v1::{self, tenant_service_server::TenantService},
};
use orch8_seal::Digest;
use tonic::{Request, Response, Status};

use super::{PAGE, PAGE_MAX, now};
use crate::{
    ControlPlane,
    app::{self, NewKey},
    store::{ApiKey, Tenant},
};

/// Roles in one request; there are six.
const ROLES_MAX: usize = 16;

/// The service.
#[derive(Clone, Debug)]
pub struct Tenants(pub ControlPlane);

#[tonic::async_trait]
impl TenantService for Tenants {
    async fn create_tenant(
        &self,
        request: Request<v1::CreateTenantRequest>,
    ) -> Result<Response<v1::CreateTenantResponse>, Status> {
        let r = request.into_inner();
        let id = door::name("tenant_id", r.tenant_id).map_err(status::of)?;
        let display_name = door::text("display_name", r.display_name, NAME_BYTES_MAX).map_err(status::of)?;
        let made = app::create_tenant(&self.0, id, display_name, now()).await.map_err(status::of)?;
        Ok(Response::new(v1::CreateTenantResponse { tenant: Some(tenant(made)) }))
    }

    async fn get_tenant(
        &self,
        request: Request<v1::GetTenantRequest>,
    ) -> Result<Response<v1::GetTenantResponse>, Status> {
        let id = door::name("tenant_id", request.into_inner().tenant_id).map_err(status::of)?;
        let found = app::get_tenant(&self.0, &id).await.map_err(status::of)?;
        Ok(Response::new(v1::GetTenantResponse { tenant: Some(tenant(found)) }))
    }

    async fn list_tenants(
        &self,
        request: Request<v1::ListTenantsRequest>,
    ) -> Result<Response<v1::ListTenantsResponse>, Status> {
        list_tenants(&self.0, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn create_key(
        &self,
        request: Request<v1::CreateKeyRequest>,
    ) -> Result<Response<v1::CreateKeyResponse>, Status> {
        let granter = identity::principal(&request).map_err(status::of)?.roles;
        let new = new_key(request.into_inner()).map_err(status::of)?;
        let (made, secret) = app::create_key(&self.0, granter, new, now()).await.map_err(status::of)?;
        let secret = secret.map(|secret| secret.reveal().to_owned()).unwrap_or_default();
        Ok(Response::new(v1::CreateKeyResponse { key: Some(key(&made)), secret }))
    }

    async fn list_keys(
        &self,
        request: Request<v1::ListKeysRequest>,
    ) -> Result<Response<v1::ListKeysResponse>, Status> {
        list_keys(&self.0, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn revoke_key(
        &self,
        request: Request<v1::RevokeKeyRequest>,
    ) -> Result<Response<v1::RevokeKeyResponse>, Status> {
        let id = key_id(request.into_inner().key_id).map_err(status::of)?;
        let ended = app::revoke_key(&self.0, id, now()).await.map_err(status::of)?;
        Ok(Response::new(v1::RevokeKeyResponse { key: Some(key(&ended)) }))
    }

    async fn who_am_i(
        &self,
        request: Request<v1::WhoAmIRequest>,
    ) -> Result<Response<v1::WhoAmIResponse>, Status> {
        let caller = identity::principal(&request).map_err(status::of)?;
        Ok(Response::new(v1::WhoAmIResponse {
            tenant_id: caller.tenant.as_ref().map(ToString::to_string).unwrap_or_default(),
            roles: wire_roles(caller.roles),
            key_id: caller.key_id(),
        }))
    }
}

fn new_key(r: v1::CreateKeyRequest) -> Result<NewKey, Fault> {
    let numbers = door::items("roles", r.roles, ROLES_MAX)?;
    let request_id: Option<orch8_model::IdempotencyKey> = door::optional_name("request_id", r.request_id)?;
    Ok(NewKey {
        tenant: door::optional_name("tenant_id", r.tenant_id)?,
        roles: numbers
            .into_iter()
            .map(|n| identity::role("roles", n))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .collect(),
        display_name: door::text("display_name", r.display_name, NAME_BYTES_MAX)?,
        expires_at: door::instant("expires_at", r.expires_at)?,
        request_id: request_id.map(|id| id.as_str().to_owned()),
        certificate: fingerprint("certificate_sha256", &r.certificate_sha256)?,
    })
}

fn fingerprint(field: &str, bytes: &[u8]) -> Result<Option<Digest>, Fault> {
    match (bytes.is_empty(), Digest::from_slice(bytes)) {
        (true, _) => Ok(None),
        (false, None) => Err(Fault::invalid(field, "must be empty or have 32 bytes")),
        (false, found) => Ok(found),
    }
}

/// 16 lower hex digits.
fn key_id(text: String) -> Result<String, Fault> {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    match text.len() == 16 && text.bytes().all(hex) {
        true => Ok(text),
        false => Err(Fault::invalid("key_id", "must be 16 lower-case hex digits")),
    }
}

async fn list_tenants(
    plane: &ControlPlane,
    r: v1::ListTenantsRequest,
) -> Result<v1::ListTenantsResponse, Fault> {
    let limit = door::page_size("page_size", r.page_size, PAGE, PAGE_MAX)?;
    let query = PageQuery::new("ListTenants", None);
    let after: Option<TenantId> = match query.read("page_token", &r.page_token)? {
        None => None,
        Some(mut key) => Some(door::name("page_token", key.take_text("page_token")?)?),
    };
    let (rows, more) = app::list_tenants(plane, after.as_ref(), limit).await?;
    let next_page_token = match rows.last() {
        Some(last) if more => query.write(Keyset::new().with_bytes(last.id.as_str())),
        Some(_) | None => String::new(),
    };
    Ok(v1::ListTenantsResponse { tenants: rows.into_iter().map(tenant).collect(), next_page_token })
}

async fn list_keys(plane: &ControlPlane, r: v1::ListKeysRequest) -> Result<v1::ListKeysResponse, Fault> {
    let tenant: Option<TenantId> = door::optional_name("tenant_id", r.tenant_id.as_str())?;
    let limit = door::page_size("page_size", r.page_size, PAGE, PAGE_MAX)?;
    let query = PageQuery::new("ListKeys", tenant.as_ref());
    let after = match query.read("page_token", &r.page_token)? {
        None => String::new(),
        Some(mut key) => key.take_text("page_token")?,
    };
    let (rows, more) = app::list_keys(plane, tenant.as_ref(), &after, limit).await?;
    let next_page_token = match rows.last() {
        Some(last) if more => query.write(Keyset::new().with_bytes(last.id())),
        Some(_) | None => String::new(),
    };
    Ok(v1::ListKeysResponse { keys: rows.iter().map(key).collect(), next_page_token })
}

fn tenant(tenant: Tenant) -> v1::Tenant {
    v1::Tenant {
        tenant_id: tenant.id.to_string(),
        display_name: tenant.display_name,
        created_at: Some(door::wire_instant(tenant.created_at)),
    }
}

fn key(key: &ApiKey) -> v1::ApiKey {
    v1::ApiKey {
        key_id: key.id(),
        tenant_id: key.tenant.as_ref().map(ToString::to_string).unwrap_or_default(),
        roles: wire_roles(key.roles),
        display_name: key.display_name.clone(),
        created_at: Some(door::wire_instant(key.created_at)),
        expires_at: key.expires_at.map(door::wire_instant),
        revoked_at: key.revoked_at.map(door::wire_instant),
    }
}
