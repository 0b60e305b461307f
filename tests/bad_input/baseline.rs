//! Good requests for every RPC, made of things that exist.

use std::collections::HashMap;

use orch8_proto::v1::{
    self, join_request::Frame as Says, send_signal_request::Signal, session_request::Frame,
};
use prost::Message;
use serde_json::{Value, json};

use crate::rig::{Engine, payload};

/// A UUID that nothing has.
pub const NOBODY: &str = "00000000-0000-7000-8000-00000000dead";

/// A request that is fine.
pub struct Good {
    pub key: String,
    /// One message, or several for a stream of them; the last one is there to be spoilt.
    pub messages: Vec<Vec<u8>>,
    /// It is about something that is not there: a walk that ends what it walks on would end itself.
    pub finds_nothing: bool,
}

/// What exists, and the good requests about it, by path.
pub struct Baseline {
    requests: HashMap<&'static str, Vec<Good>>,
    pub instance: String,
    pub sequence: String,
    /// The second page of `dev`'s runs.
    pub page_token: String,
}

impl Baseline {
    pub async fn make(engine: &Engine) -> Self {
        let client = engine.client();
        let document = json!({"name": "still", "blocks": [
            {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 3_600_000}}
        ]});
        let sequence = client.publish(&document).await.expect("published").sequence_id;
        let instance = client.start("still", &json!({})).await.expect("started");
        client.start("still", &json!({})).await.expect("started");
        let first = v1::ListInstancesRequest { page_size: 1, ..Default::default() };
        let page = client.instances().list_instances(first).await.expect("a page").into_inner();
        unplaced(engine, "spare").await;

        let mut shelf = Shelf { requests: HashMap::new(), key: client.key.clone() };
        shelf.sequences(&document, &sequence);
        shelf.starts(&sequence);
        shelf.instances(&instance);
        shelf.signals(&instance);
        shelf.key = engine.key("worker");
        shelf.sessions();
        shelf.key = engine.key("operator");
        shelf.tenants();
        shelf.key = node_key(engine);
        let watch = v1::WatchRequest { node_id: "n".into(), stores: vec!["local".into()], resume_token: 0 };
        shelf.add("/orch8.v1.FleetService/Watch", watch);
        shelf.nodes();
        Self { requests: shelf.requests, instance, sequence, page_token: page.next_page_token }
    }

    pub fn requests(&self, path: &str) -> &[Good] {
        self.requests.get(path).map_or(&[], Vec::as_slice)
    }
}

/// A tenant that is there to be placed.
async fn unplaced(engine: &Engine, tenant: &str) {
    let request = v1::CreateTenantRequest { tenant_id: tenant.into(), ..Default::default() };
    engine.operator().tenants().create_tenant(request).await.expect("a tenant");
}

fn node_key(engine: &Engine) -> String {
    let keys = std::fs::read(engine.dir().join("keys.json")).expect("keys");
    let keys: Value = serde_json::from_slice(&keys).expect("JSON");
    keys["node"].as_str().expect("a key").to_owned()
}

struct Shelf {
    requests: HashMap<&'static str, Vec<Good>>,
    /// Of whom the next requests are.
    key: String,
}

impl Shelf {
    fn add(&mut self, path: &'static str, message: impl Message) {
        self.put(path, vec![message.encode_to_vec()], false);
    }

    fn add_of_nothing(&mut self, path: &'static str, message: impl Message) {
        self.put(path, vec![message.encode_to_vec()], true);
    }

    fn put(&mut self, path: &'static str, messages: Vec<Vec<u8>>, finds_nothing: bool) {
        let good = Good { key: self.key.clone(), messages, finds_nothing };
        self.requests.entry(path).or_default().push(good);
    }

    fn sequences(&mut self, document: &Value, id: &str) {
        let document = Some(payload(document));
        let publish = v1::PublishSequenceRequest { document: document.clone(), ..Default::default() };
        self.add("/orch8.v1.SequenceService/PublishSequence", publish);
        let validate = v1::ValidateSequenceRequest { document, ..Default::default() };
        self.add("/orch8.v1.SequenceService/ValidateSequence", validate);
        let get = "/orch8.v1.SequenceService/GetSequence";
        self.add(get, v1::GetSequenceRequest { name: "still".into(), ..Default::default() });
        self.add(get, v1::GetSequenceRequest { sequence_id: id.into(), ..Default::default() });
        self.add("/orch8.v1.SequenceService/ListSequences", v1::ListSequencesRequest::default());
    }

    fn starts(&mut self, sequence: &str) {
        let start = v1::StartInstanceRequest {
            sequence_name: "still".into(),
            data: Some(payload(&json!({}))),
            config: Some(payload(&json!({}))),
            metadata: Some(payload(&json!({}))),
            next_fire_at: Some(prost_types::Timestamp { seconds: 4_000_000_000, nanos: 0 }),
            ..Default::default()
        };
        let by_id = v1::StartInstanceRequest {
            sequence_name: String::new(),
            sequence_id: sequence.into(),
            ..start.clone()
        };
        self.add("/orch8.v1.InstanceService/StartInstance", start.clone());
        self.add("/orch8.v1.InstanceService/StartInstance", by_id);
        let many = v1::StartInstancesRequest { instances: vec![start], ..Default::default() };
        self.add("/orch8.v1.InstanceService/StartInstances", many);
    }

    fn instances(&mut self, instance: &str) {
        let id = || instance.to_owned();
        let get = v1::GetInstanceRequest { instance_id: id(), ..Default::default() };
        self.add("/orch8.v1.InstanceService/GetInstance", get);
        self.add("/orch8.v1.InstanceService/ListInstances", v1::ListInstancesRequest::default());
        let timeline = v1::GetTimelineRequest { instance_id: id(), ..Default::default() };
        self.add("/orch8.v1.InstanceService/GetTimeline", timeline);
        let outputs = v1::GetOutputsRequest { instance_id: id(), ..Default::default() };
        self.add("/orch8.v1.InstanceService/GetOutputs", outputs);
        let watch = v1::WatchInstanceRequest { instance_id: id(), ..Default::default() };
        self.add("/orch8.v1.InstanceService/WatchInstance", watch);
        let cancel = v1::CancelInstanceRequest { instance_id: NOBODY.into(), ..Default::default() };
        self.add_of_nothing("/orch8.v1.InstanceService/CancelInstance", cancel);
        self.add("/orch8.v1.WorkerService/ListSessions", v1::ListSessionsRequest::default());
        self.add("/orch8.v1.WorkerService/ListHandlers", v1::ListHandlersRequest::default());
    }

    fn signals(&mut self, instance: &str) {
        let custom = v1::CustomSignal { name: "x".into(), payload: Some(payload(&json!(1))) };
        let update = v1::UpdateContextSignal { data: Some(payload(&json!({}))) };
        for signal in [Signal::Custom(custom), Signal::UpdateContext(update)] {
            let request = v1::SendSignalRequest {
                instance_id: instance.into(),
                signal: Some(signal),
                ..Default::default()
            };
            self.add("/orch8.v1.SignalService/SendSignal", request);
        }
    }

    /// The first frame, and each kind of frame that may follow it.
    fn sessions(&mut self) {
        let path = "/orch8.v1.WorkerService/Session";
        let lease = Some(v1::Lease { task_id: NOBODY.into(), attempt: 0, claim_epoch: 1 });
        let route = Some(v1::Route { shard: 0, placement_epoch: 1 });
        let held = v1::HeldTask { lease: lease.clone(), route };
        let completed = v1::TaskResult {
            lease: lease.clone(),
            route,
            outcome: Some(v1::task_result::Outcome::Completed(payload(&json!({})))),
        };
        let failed = v1::TaskResult {
            outcome: Some(v1::task_result::Outcome::Failed(v1::TaskFailure {
                message: "m".into(),
                details: Some(payload(&json!({}))),
                retry_after: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
                ..Default::default()
            })),
            ..completed.clone()
        };
        let hello = v1::Hello {
            worker_id: "w".into(),
            instance_nonce: "n".into(),
            lanes: vec![v1::Lane { name: "main".into(), handlers: vec!["h".into()] }],
            ..Default::default()
        };
        let returning = v1::Hello {
            running: vec![held.clone()],
            unacknowledged: vec![completed.clone()],
            ..hello.clone()
        };
        let frame = |frame| v1::SessionRequest { frame: Some(frame) }.encode_to_vec();
        let first = frame(Frame::Hello(hello));
        self.put(path, vec![first.clone()], false);
        self.put(path, vec![frame(Frame::Hello(returning))], false);
        for next in [
            Frame::Credit(v1::Credit { lane: "main".into(), tasks: 1, bytes: 0 }),
            Frame::Received(v1::Received { up_to_seq: 0 }),
            Frame::Results(v1::Results { results: vec![completed] }),
            Frame::Results(v1::Results { results: vec![failed] }),
            Frame::Progress(v1::Progress { lease, route, seq: 1, checkpoint: Some(payload(&json!({}))) }),
            Frame::Release(v1::Release { tasks: vec![held] }),
            Frame::Ping(v1::Ping::default()),
            Frame::Drain(v1::Drain {}),
        ] {
            self.put(path, vec![first.clone(), frame(next)], false);
        }
    }

    /// Hello, and each kind of frame that may follow it. The store is the one that the engine's own node serves, so this
    /// one stands by.
    fn nodes(&mut self) {
        let path = "/orch8.v1.FleetService/Join";
        let store =
            v1::StoreOffer { name: "local".into(), kind: v1::StoreKind::Sqlite.into(), shard_count: 4 };
        let hello = v1::JoinHello {
            node_id: "stranger".into(),
            process_id: NOBODY.into(),
            address: "http://127.0.0.1:1".into(),
            stores: vec![store],
        };
        let held = v1::HeldShard { store: "local".into(), shard: 0, lease_epoch: 1, commit_seq: 1 };
        let refused = v1::RefusedShard { store: "local".into(), shard: 0, lease_epoch: 1, stored_epoch: 1 };
        let frame = |frame| v1::JoinRequest { frame: Some(frame) }.encode_to_vec();
        let first = frame(Says::Hello(hello));
        self.put(path, vec![first.clone()], false);
        for next in [
            Says::Heartbeat(v1::JoinHeartbeat { held: vec![held], refused: vec![refused] }),
            Says::Leave(v1::JoinLeave {}),
        ] {
            self.put(path, vec![first.clone(), frame(next)], false);
        }
    }

    fn tenants(&mut self) {
        let create = v1::CreateTenantRequest { tenant_id: "t".into(), ..Default::default() };
        self.add("/orch8.v1.TenantService/CreateTenant", create);
        let get = v1::GetTenantRequest { tenant_id: "dev".into() };
        self.add("/orch8.v1.TenantService/GetTenant", get);
        self.add("/orch8.v1.TenantService/ListTenants", v1::ListTenantsRequest::default());
        let key = v1::CreateKeyRequest {
            tenant_id: "dev".into(),
            roles: vec![v1::Role::Client.into()],
            ..Default::default()
        };
        self.add("/orch8.v1.TenantService/CreateKey", key);
        self.add("/orch8.v1.TenantService/ListKeys", v1::ListKeysRequest::default());
        let revoke = v1::RevokeKeyRequest { key_id: "0123456789abcdef".into() };
        self.add_of_nothing("/orch8.v1.TenantService/RevokeKey", revoke);
        self.add("/orch8.v1.TenantService/WhoAmI", v1::WhoAmIRequest {});
        let get = v1::GetPlacementRequest { tenant_id: "dev".into() };
        self.add("/orch8.v1.PlacementService/GetPlacement", get);
        self.add("/orch8.v1.PlacementService/ListPlacements", v1::ListPlacementsRequest::default());
        let set = v1::SetPlacementRequest { tenant_id: "spare".into(), store: "local".into(), epoch: 1 };
        self.add("/orch8.v1.PlacementService/SetPlacement", set);
        let register = v1::RegisterStoreRequest { name: "local".into(), kind: v1::StoreKind::Sqlite.into() };
        self.add("/orch8.v1.PlacementService/RegisterStore", register);
        self.add("/orch8.v1.PlacementService/ListStores", v1::ListStoresRequest::default());
        let find = v1::FindEndpointsRequest { tenant_id: "dev".into() };
        self.add("/orch8.v1.FleetService/FindEndpoints", find);
        self.add("/orch8.v1.FleetService/DescribeFleet", v1::DescribeFleetRequest {});
    }
}
