//! InstanceService.

use std::{collections::HashMap, pin::Pin};

use futures::Stream;
use orch8_engine::{NodeNo, Status as State};
use orch8_model::{
    BlockId, Fault, InstanceId, Millis, SequenceId, TenantId,
    limits::{CONTEXT_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX, METADATA_BYTES_MAX, START_BATCH_MAX},
};
use orch8_proto::{
    door::{self, Keyset, PageQuery},
    status,
    v1::{self, instance_service_server::InstanceService},
};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

use super::{now, sequences::sequence_ref, tenant, wire};
use crate::{
    app::{self, DataPlane, InstanceView, NewInstance, NodeView},
    shard::Compiled,
    store::{InstanceFilter, InstanceRow, PageAfter, Started},
};

/// Changes a slow watcher may fall behind; then it waits for itself alone.
const WATCH_BUFFER: usize = 4;
/// Nodes of a timeline page when nobody says, and at most.
const NODES: u32 = 1_000;
const NODES_MAX: u32 = 10_000;
/// Output rows of a page when nobody says, and at most.
const OUTPUTS: u32 = 100;
const OUTPUTS_MAX: u32 = 1_000;

/// The service.
#[derive(Clone, Debug)]
pub struct Instances(pub DataPlane);

#[tonic::async_trait]
impl InstanceService for Instances {
    async fn start_instance(
        &self,
        request: Request<v1::StartInstanceRequest>,
    ) -> Result<Response<v1::StartInstanceResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let item = new_instance(String::new(), request.into_inner()).map_err(status::of)?;
        let started = app::start_instances(&self.0, &tenant, vec![item], now()).await.map_err(status::of)?;
        Ok(Response::new(started.into_iter().next().map(started_item).unwrap_or_default()))
    }

    async fn start_instances(
        &self,
        request: Request<v1::StartInstancesRequest>,
    ) -> Result<Response<v1::StartInstancesResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let items = new_instances(&tenant, request.into_inner().instances).map_err(status::of)?;
        let started = app::start_instances(&self.0, &tenant, items, now()).await.map_err(status::of)?;
        let items: Vec<_> = started.into_iter().map(started_item).collect();
        Ok(Response::new(v1::StartInstancesResponse { count: items.len() as u32, items }))
    }

    async fn get_instance(
        &self,
        request: Request<v1::GetInstanceRequest>,
    ) -> Result<Response<v1::GetInstanceResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let id = instance_id(&request.get_ref().instance_id)?;
        let (view, open) = app::get_instance(&self.0, &tenant, id).await.map_err(status::of)?;
        Ok(Response::new(v1::GetInstanceResponse { instance: Some(instance(&view, &open)) }))
    }

    async fn list_instances(
        &self,
        request: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<v1::ListInstancesResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        list(&self.0, &tenant, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn get_timeline(
        &self,
        request: Request<v1::GetTimelineRequest>,
    ) -> Result<Response<v1::GetTimelineResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        timeline(&self.0, &tenant, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn get_outputs(
        &self,
        request: Request<v1::GetOutputsRequest>,
    ) -> Result<Response<v1::GetOutputsResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        outputs(&self.0, &tenant, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    type WatchInstanceStream = Pin<Box<dyn Stream<Item = Result<v1::WatchInstanceResponse, Status>> + Send>>;

    async fn watch_instance(
        &self,
        request: Request<v1::WatchInstanceRequest>,
    ) -> Result<Response<Self::WatchInstanceStream>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let id = instance_id(&request.get_ref().instance_id)?;
        // Known before the stream begins, so that a missing run is an answer and not a broken stream.
        app::get_instance(&self.0, &tenant, id).await.map_err(status::of)?;
        let (sender, changes) = mpsc::channel(WATCH_BUFFER);
        tokio::spawn(app::watch_instance(self.0.clone(), tenant, id, sender));
        let stream = ReceiverStream::new(changes).map(|change| {
            let (view, nodes, ended) = change.map_err(status::of)?;
            let changed = nodes.iter().map(|n| wire::node(n, None, false)).collect();
            Ok(v1::WatchInstanceResponse { instance: Some(instance(&view, &[])), changed, ended })
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn cancel_instance(
        &self,
        request: Request<v1::CancelInstanceRequest>,
    ) -> Result<Response<v1::CancelInstanceResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let id = instance_id(&request.get_ref().instance_id)?;
        let reason =
            door::text("reason", request.into_inner().reason, ERROR_MESSAGE_BYTES_MAX).map_err(status::of)?;
        let state = app::cancel_instance(&self.0, &tenant, id, reason, now()).await.map_err(status::of)?;
        Ok(Response::new(v1::CancelInstanceResponse { state: state_of(state).into() }))
    }
}

#[allow(clippy::result_large_err)]
fn instance_id(text: &str) -> Result<InstanceId, Status> {
    door::id("instance_id", text, InstanceId).map_err(status::of)
}

// ---- in --------------------------------------------------------------------------------------------------------------

fn new_instances(tenant: &TenantId, items: Vec<v1::StartInstanceRequest>) -> Result<Vec<NewInstance>, Fault> {
    let items = door::items("instances", items, START_BATCH_MAX)?;
    let parse = |(index, item): (usize, v1::StartInstanceRequest)| {
        let field = format!("instances[{index}].");
        if !item.tenant_id.is_empty() && item.tenant_id != tenant.as_str() {
            return Err(Fault::field(
                orch8_model::Reason::TenantMismatch,
                format!("{field}tenant_id"),
                "is not the tenant of the request",
            ));
        }
        new_instance(field, item)
    };
    items.into_iter().enumerate().map(parse).collect()
}

fn new_instance(field: String, r: v1::StartInstanceRequest) -> Result<NewInstance, Fault> {
    let at = |name: &str| format!("{field}{name}");
    let sequence =
        sequence_ref(&field, &r.sequence_id, &r.namespace, "sequence_name", &r.sequence_name, r.version)?;
    let priority = match door::choice::<v1::Priority>(&at("priority"), r.priority)? {
        Some(v1::Priority::Low) => 0,
        Some(v1::Priority::Normal | v1::Priority::Unspecified) | None => 1,
        Some(v1::Priority::High) => 2,
        Some(v1::Priority::Critical) => 3,
    };
    let timezone = if r.timezone.is_empty() { "UTC".to_owned() } else { r.timezone };
    if timezone.parse::<chrono_tz::Tz>().is_err() {
        return Err(Fault::invalid(at("timezone"), "is not an IANA time zone, for example Europe/Paris"));
    }
    Ok(NewInstance {
        sequence,
        data: section(&at("data"), r.data, CONTEXT_BYTES_MAX)?,
        config: section(&at("config"), r.config, CONTEXT_BYTES_MAX)?,
        metadata: section(&at("metadata"), r.metadata, METADATA_BYTES_MAX)?,
        priority,
        timezone,
        fire_at: door::instant(&at("next_fire_at"), r.next_fire_at)?,
        key: door::optional_name(&at("idempotency_key"), r.idempotency_key)?,
        field,
    })
}

/// A JSON object, parsed and as it came; absent is `{}`.
fn section(field: &str, payload: Option<v1::Payload>, max: usize) -> Result<(Value, String), Fault> {
    match door::json(field, payload, max)? {
        None => Ok((Value::Object(Map::new()), "{}".to_owned())),
        Some(json) => {
            let json = json.object(field)?;
            let text =
                String::from_utf8(json.text.to_vec()).map_err(|_| Fault::invalid(field, "must be UTF-8"))?;
            Ok((json.value, text))
        }
    }
}

fn filter(r: &v1::ListInstancesRequest) -> Result<InstanceFilter, Fault> {
    let states = door::items("states", r.states.clone(), 7)?;
    let statuses = states
        .into_iter()
        .map(|number| {
            door::choice::<v1::InstanceState>("states", number)?
                .and_then(status_of)
                .ok_or_else(|| Fault::invalid("states", "must not hold INSTANCE_STATE_UNSPECIFIED"))
        })
        .collect::<Result<_, _>>()?;
    Ok(InstanceFilter {
        statuses,
        namespace: door::optional_name("namespace", r.namespace.as_str())?,
        sequence: door::optional_id("sequence_id", &r.sequence_id, SequenceId)?,
        sequence_name: door::optional_name("sequence_name", r.sequence_name.as_str())?,
        created_after: door::instant("created_after", r.created_after)?,
        created_before: door::instant("created_before", r.created_before)?,
    })
}

// ---- reads -----------------------------------------------------------------------------------------------------------

async fn list(
    plane: &DataPlane,
    tenant: &TenantId,
    r: v1::ListInstancesRequest,
) -> Result<v1::ListInstancesResponse, Fault> {
    let filter = filter(&r)?;
    let limit = door::page_size("page_size", r.page_size, wire::PAGE, wire::PAGE_MAX)?;
    let query = PageQuery::new("ListInstances", Some(tenant)).filter(format!("{filter:?}"));
    let after = match query.read("page_token", &r.page_token)? {
        None => None,
        Some(mut key) => Some(PageAfter {
            created_at: Millis(key.take_int("page_token")?),
            id: InstanceId::from_slice(&key.take_bytes("page_token")?).ok_or_else(wire::bad_token)?,
        }),
    };
    let (rows, more) = app::list_instances(plane, tenant, &filter, after, limit).await?;
    let next_page_token = match rows.last() {
        Some(last) if more => query.write(
            Keyset::new().with_int(last.birth.created_at.0).with_bytes(last.birth.instance.as_bytes()),
        ),
        Some(_) | None => String::new(),
    };
    let mut names: HashMap<SequenceId, std::sync::Arc<Compiled>> = HashMap::new();
    let mut instances = Vec::with_capacity(rows.len());
    for row in rows {
        let compiled = match names.get(&row.birth.sequence) {
            Some(known) => std::sync::Arc::clone(known),
            None => {
                let compiled = app::sequence_of(plane, tenant, &row).await?;
                names.insert(row.birth.sequence, std::sync::Arc::clone(&compiled));
                compiled
            }
        };
        instances.push(listed(&row, &compiled));
    }
    Ok(v1::ListInstancesResponse { instances, next_page_token })
}

async fn timeline(
    plane: &DataPlane,
    tenant: &TenantId,
    r: v1::GetTimelineRequest,
) -> Result<v1::GetTimelineResponse, Fault> {
    let id = door::id("instance_id", &r.instance_id, InstanceId)?;
    let limit = door::page_size("page_size", r.page_size, NODES, NODES_MAX)?;
    let query = PageQuery::new("GetTimeline", Some(tenant)).filter(id.as_bytes());
    let after = match query.read("page_token", &r.page_token)? {
        None => NodeNo(0),
        Some(mut key) => NodeNo(u64::try_from(key.take_int("page_token")?).map_err(|_| wire::bad_token())?),
    };
    let page = app::get_timeline(plane, tenant, id, after, limit, r.include_outputs).await?;
    let next_page_token = match page.nodes.last() {
        Some(last) if page.more => query.write(Keyset::new().with_int(last.node.node.0 as i64)),
        Some(_) | None => String::new(),
    };
    let open: Vec<&NodeView> = page.nodes.iter().filter(|n| n.node.wait.is_some()).collect();
    let mut shown = instance(&page.view, &[]);
    if !page.view.row.status.is_terminal() {
        shown.waits = open.into_iter().filter_map(wire::node_wait).collect();
    }
    let nodes =
        page.nodes.iter().map(|n| wire::node(n, page.outputs.get(&n.node.node), r.include_outputs)).collect();
    Ok(v1::GetTimelineResponse { instance: Some(shown), nodes, next_page_token })
}

async fn outputs(
    plane: &DataPlane,
    tenant: &TenantId,
    r: v1::GetOutputsRequest,
) -> Result<v1::GetOutputsResponse, Fault> {
    let id = door::id("instance_id", &r.instance_id, InstanceId)?;
    let limit = door::page_size("page_size", r.page_size, OUTPUTS, OUTPUTS_MAX)?;
    let block: Option<BlockId> = door::optional_name("block_id", r.block_id)?;
    let page =
        app::get_outputs(plane, tenant, id, block.as_ref().map(BlockId::as_str), r.after_seq, limit).await?;
    let next_after_seq = if page.more { page.rows.last().map_or(0, |(row, _)| row.seq) } else { 0 };
    let outputs = page
        .rows
        .into_iter()
        .map(|(row, at)| v1::OutputRow {
            seq: row.seq,
            block_id: row.block_id,
            iteration: row.iteration,
            output: Some(door::wire_json(&row.output)),
            attempt: row.attempt,
            created_at: Some(door::wire_instant(at)),
        })
        .collect();
    Ok(v1::GetOutputsResponse { outputs, next_after_seq })
}

// ---- out -------------------------------------------------------------------------------------------------------------

fn started_item(started: Started) -> v1::StartInstanceResponse {
    let (id, deduplicated) = match started {
        Started::New(id) => (id, false),
        Started::Deduplicated(id) | Started::Mismatch(id) => (id, true),
    };
    v1::StartInstanceResponse { instance_id: id.to_string(), deduplicated, warnings: Vec::new() }
}

/// As lists show it: without values.
fn listed(row: &InstanceRow, compiled: &Compiled) -> v1::Instance {
    let birth = &row.birth;
    v1::Instance {
        instance_id: birth.instance.to_string(),
        continuity_id: birth.continuity.to_string(),
        namespace: birth.namespace.to_string(),
        sequence_id: birth.sequence.to_string(),
        sequence_name: compiled.name.to_string(),
        sequence_version: compiled.version,
        state: state_of(row.status).into(),
        priority: priority_of(birth.priority).into(),
        created_at: Some(door::wire_instant(birth.created_at)),
        closed_at: row.closed_at.map(door::wire_instant),
        metadata: Some(door::wire_text(birth.metadata.clone().into())),
        ..Default::default()
    }
}

fn instance(view: &InstanceView, open: &[NodeView]) -> v1::Instance {
    let state = &view.state;
    let next_fire_at = state.next_wake().or((state.next_turn() == 0).then_some(view.row.birth.fire_at));
    v1::Instance {
        next_fire_at: next_fire_at.map(door::wire_instant),
        error: state.error().map(wire::step_error),
        data: Some(door::wire_json(&Value::Object(state.data().clone()))),
        config: Some(door::wire_json(&Value::Object(state.config().clone()))),
        waits: open.iter().filter_map(wire::node_wait).collect(),
        turns: state.next_turn(),
        cancelling: state.cancelling(),
        ..listed(&view.row, &view.compiled)
    }
}

fn state_of(status: State) -> v1::InstanceState {
    match status {
        State::Scheduled => v1::InstanceState::Scheduled,
        State::Running => v1::InstanceState::Running,
        State::Waiting => v1::InstanceState::Waiting,
        State::Paused => v1::InstanceState::Paused,
        State::Completed => v1::InstanceState::Completed,
        State::Failed => v1::InstanceState::Failed,
        State::Cancelled => v1::InstanceState::Cancelled,
    }
}

fn status_of(state: v1::InstanceState) -> Option<State> {
    match state {
        v1::InstanceState::Unspecified => None,
        v1::InstanceState::Scheduled => Some(State::Scheduled),
        v1::InstanceState::Running => Some(State::Running),
        v1::InstanceState::Waiting => Some(State::Waiting),
        v1::InstanceState::Paused => Some(State::Paused),
        v1::InstanceState::Completed => Some(State::Completed),
        v1::InstanceState::Failed => Some(State::Failed),
        v1::InstanceState::Cancelled => Some(State::Cancelled),
    }
}

fn priority_of(priority: u8) -> v1::Priority {
    match priority {
        0 => v1::Priority::Low,
        1 => v1::Priority::Normal,
        2 => v1::Priority::High,
        3.. => v1::Priority::Critical,
    }
}
