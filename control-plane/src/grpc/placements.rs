//! PlacementService.

use orch8_authority::StoreKind;
use orch8_model::{Fault, PlacementEpoch, StoreName, TenantId};
use orch8_proto::{
    door::{self, Keyset, PageQuery},
    status,
    v1::{self, placement_service_server::PlacementService},
};
use tonic::{Request, Response, Status};

use super::{PAGE, PAGE_MAX, now};
use crate::{
    ControlPlane, app,
    store::{Placement, Store},
};

/// The service.
#[derive(Clone, Debug)]
pub struct Placements(pub ControlPlane);

#[tonic::async_trait]
impl PlacementService for Placements {
    async fn register_store(
        &self,
        request: Request<v1::RegisterStoreRequest>,
    ) -> Result<Response<v1::RegisterStoreResponse>, Status> {
        let (name, kind) = named(request.into_inner()).map_err(status::of)?;
        let store = app::register_store(&self.0, name, kind, now()).await.map_err(status::of)?;
        Ok(Response::new(v1::RegisterStoreResponse { store: Some(wire_store(&store)) }))
    }

    async fn list_stores(
        &self,
        request: Request<v1::ListStoresRequest>,
    ) -> Result<Response<v1::ListStoresResponse>, Status> {
        list_stores(&self.0, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn set_placement(
        &self,
        request: Request<v1::SetPlacementRequest>,
    ) -> Result<Response<v1::SetPlacementResponse>, Status> {
        let proposed = proposed(request.into_inner()).map_err(status::of)?;
        let stored = app::set_placement(&self.0, proposed).await.map_err(status::of)?;
        Ok(Response::new(v1::SetPlacementResponse { placement: Some(wire_placement(&stored)) }))
    }

    async fn get_placement(
        &self,
        request: Request<v1::GetPlacementRequest>,
    ) -> Result<Response<v1::GetPlacementResponse>, Status> {
        let tenant = door::name("tenant_id", request.into_inner().tenant_id).map_err(status::of)?;
        let stored = app::get_placement(&self.0, &tenant).await.map_err(status::of)?;
        Ok(Response::new(v1::GetPlacementResponse { placement: Some(wire_placement(&stored)) }))
    }

    async fn list_placements(
        &self,
        request: Request<v1::ListPlacementsRequest>,
    ) -> Result<Response<v1::ListPlacementsResponse>, Status> {
        list(&self.0, request.into_inner()).await.map(Response::new).map_err(status::of)
    }
}

fn named(r: v1::RegisterStoreRequest) -> Result<(StoreName, StoreKind), Fault> {
    Ok((door::name("name", r.name)?, store_kind("kind", r.kind)?))
}

/// Errors: none, or one this build does not know.
pub(super) fn store_kind(field: &str, number: i32) -> Result<StoreKind, Fault> {
    match door::required(field, door::choice::<v1::StoreKind>(field, number)?)? {
        v1::StoreKind::Postgres => Ok(StoreKind::Postgres),
        v1::StoreKind::Sqlite => Ok(StoreKind::Sqlite),
        v1::StoreKind::Unspecified => Err(Fault::invalid(field, "is required")),
    }
}

async fn list_stores(
    plane: &ControlPlane,
    r: v1::ListStoresRequest,
) -> Result<v1::ListStoresResponse, Fault> {
    let limit = door::page_size("page_size", r.page_size, PAGE, PAGE_MAX)?;
    let query = PageQuery::new("ListStores", None);
    let after: Option<StoreName> = match query.read("page_token", &r.page_token)? {
        None => None,
        Some(mut key) => Some(door::name("page_token", key.take_text("page_token")?)?),
    };
    let (rows, more) = app::list_stores(plane, after.as_ref(), limit).await?;
    let next_page_token = match rows.last() {
        Some(last) if more => query.write(Keyset::new().with_bytes(last.name.as_str())),
        Some(_) | None => String::new(),
    };
    Ok(v1::ListStoresResponse { stores: rows.iter().map(wire_store).collect(), next_page_token })
}

fn proposed(r: v1::SetPlacementRequest) -> Result<Placement, Fault> {
    let epoch = PlacementEpoch::new(r.epoch).filter(|epoch| epoch.get() > 0);
    Ok(Placement {
        tenant: door::name("tenant_id", r.tenant_id)?,
        store: door::name("store", r.store)?,
        epoch: epoch.ok_or_else(|| {
            Fault::invalid("epoch", format_args!("must lie between 1 and {}", PlacementEpoch::MAX))
        })?,
        updated_at: now(),
    })
}

async fn list(
    plane: &ControlPlane,
    r: v1::ListPlacementsRequest,
) -> Result<v1::ListPlacementsResponse, Fault> {
    let limit = door::page_size("page_size", r.page_size, PAGE, PAGE_MAX)?;
    let query = PageQuery::new("ListPlacements", None);
    let after: Option<TenantId> = match query.read("page_token", &r.page_token)? {
        None => None,
        Some(mut key) => Some(door::name("page_token", key.take_text("page_token")?)?),
    };
    let (rows, more) = app::list_placements(plane, after.as_ref(), limit).await?;
    let next_page_token = match rows.last() {
        Some(last) if more => query.write(Keyset::new().with_bytes(last.tenant.as_str())),
        Some(_) | None => String::new(),
    };
    Ok(v1::ListPlacementsResponse { placements: rows.iter().map(wire_placement).collect(), next_page_token })
}

fn wire_store(store: &Store) -> v1::Store {
    let kind = match store.shape.kind {
        StoreKind::Postgres => v1::StoreKind::Postgres,
        StoreKind::Sqlite => v1::StoreKind::Sqlite,
    };
    v1::Store {
        name: store.name.to_string(),
        kind: kind.into(),
        shard_count: store.shape.shard_count,
        created_at: Some(door::wire_instant(store.created_at)),
    }
}

pub(super) fn wire_placement(placement: &Placement) -> v1::Placement {
    v1::Placement {
        tenant_id: placement.tenant.to_string(),
        store: placement.store.to_string(),
        epoch: placement.epoch.get(),
        updated_at: Some(door::wire_instant(placement.updated_at)),
    }
}
