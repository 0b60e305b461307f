//! A good request for every RPC, made of things that exist.

use std::collections::HashMap;

use orch8_proto::v1::{self, session_request::Frame};
use prost::Message;
use serde_json::json;

use crate::rig::{Client, Engine, payload};

/// Requests by path: the key to use, and the messages of the stream (one, for a unary call). The last one is spoilt.
pub struct Baseline {
    requests: HashMap<&'static str, (String, Vec<Vec<u8>>)>,
    instance: String,
    sequence: String,
    client: Client,
}

impl Baseline {
    pub async fn make(engine: &Engine) -> Self {
        let (client, operator) = (engine.client(), engine.operator());
        let document = json!({"name": "still", "blocks": [
            {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 3_600_000}}
        ]});
        let sequence = client.publish(&document).await.expect("published").sequence_id;
        let instance = client.start("still", &json!({})).await.expect("started");
        let keys = std::fs::read(engine.dir().join("keys.json")).expect("keys");
        let node = serde_json::from_slice::<serde_json::Value>(&keys).expect("JSON")["node"]
            .as_str()
            .expect("a key")
            .to_owned();

        let mut requests = HashMap::new();
        let mut add = |path: &'static str, key: &str, messages: Vec<Vec<u8>>| {
            requests.insert(path, (key.to_owned(), messages));
        };
        let (c, o) = (client.key.clone(), operator.key.clone());
        let hello = || v1::Hello {
            worker_id: "w".into(),
            instance_nonce: "n".into(),
            lanes: vec![v1::Lane { name: "main".into(), handlers: vec!["h".into()] }],
            ..Default::default()
        };
        let frame = |frame| v1::SessionRequest { frame: Some(frame) }.encode_to_vec();
        add(
            "/orch8.v1.SequenceService/PublishSequence",
            &c,
            vec![
                v1::PublishSequenceRequest { document: Some(payload(&document)), ..Default::default() }
                    .encode_to_vec(),
            ],
        );
        add(
            "/orch8.v1.SequenceService/ValidateSequence",
            &c,
            vec![
                v1::ValidateSequenceRequest { document: Some(payload(&document)), ..Default::default() }
                    .encode_to_vec(),
            ],
        );
        add(
            "/orch8.v1.SequenceService/GetSequence",
            &c,
            vec![v1::GetSequenceRequest { name: "still".into(), ..Default::default() }.encode_to_vec()],
        );
        add(
            "/orch8.v1.SequenceService/ListSequences",
            &c,
            vec![v1::ListSequencesRequest::default().encode_to_vec()],
        );
        let start = v1::StartInstanceRequest {
            sequence_name: "still".into(),
            data: Some(payload(&json!({}))),
            config: Some(payload(&json!({}))),
            metadata: Some(payload(&json!({}))),
            next_fire_at: Some(prost_types::Timestamp { seconds: 4_000_000_000, nanos: 0 }),
            ..Default::default()
        };
        add("/orch8.v1.InstanceService/StartInstance", &c, vec![start.encode_to_vec()]);
        add(
            "/orch8.v1.InstanceService/StartInstances",
            &c,
            vec![v1::StartInstancesRequest { instances: vec![start], ..Default::default() }.encode_to_vec()],
        );
        add(
            "/orch8.v1.InstanceService/GetInstance",
            &c,
            vec![
                v1::GetInstanceRequest { instance_id: instance.clone(), ..Default::default() }
                    .encode_to_vec(),
            ],
        );
        add(
            "/orch8.v1.InstanceService/ListInstances",
            &c,
            vec![v1::ListInstancesRequest::default().encode_to_vec()],
        );
        add(
            "/orch8.v1.InstanceService/GetTimeline",
            &c,
            vec![
                v1::GetTimelineRequest { instance_id: instance.clone(), ..Default::default() }
                    .encode_to_vec(),
            ],
        );
        add(
            "/orch8.v1.InstanceService/GetOutputs",
            &c,
            vec![
                v1::GetOutputsRequest { instance_id: instance.clone(), ..Default::default() }.encode_to_vec(),
            ],
        );
        add(
            "/orch8.v1.InstanceService/WatchInstance",
            &c,
            vec![
                v1::WatchInstanceRequest { instance_id: instance.clone(), ..Default::default() }
                    .encode_to_vec(),
            ],
        );
        // Of nobody: a walk that cancels the run it walks on would end itself.
        let nobody = "00000000-0000-7000-8000-00000000beef".to_owned();
        add(
            "/orch8.v1.InstanceService/CancelInstance",
            &c,
            vec![v1::CancelInstanceRequest { instance_id: nobody, ..Default::default() }.encode_to_vec()],
        );
        let signal = v1::send_signal_request::Signal::Custom(v1::CustomSignal {
            name: "x".into(),
            payload: Some(payload(&json!(1))),
        });
        add(
            "/orch8.v1.SignalService/SendSignal",
            &c,
            vec![
                v1::SendSignalRequest {
                    instance_id: instance.clone(),
                    signal: Some(signal),
                    ..Default::default()
                }
                .encode_to_vec(),
            ],
        );
        add(
            "/orch8.v1.WorkerService/ListSessions",
            &c,
            vec![v1::ListSessionsRequest::default().encode_to_vec()],
        );
        add(
            "/orch8.v1.WorkerService/ListHandlers",
            &c,
            vec![v1::ListHandlersRequest::default().encode_to_vec()],
        );
        let worker = engine.key("worker");
        add("/orch8.v1.WorkerService/Session", &worker, vec![frame(Frame::Hello(hello()))]);
        add(
            "/orch8.v1.TenantService/CreateTenant",
            &o,
            vec![v1::CreateTenantRequest { tenant_id: "t".into(), ..Default::default() }.encode_to_vec()],
        );
        add(
            "/orch8.v1.TenantService/GetTenant",
            &o,
            vec![v1::GetTenantRequest { tenant_id: "dev".into() }.encode_to_vec()],
        );
        add(
            "/orch8.v1.TenantService/ListTenants",
            &o,
            vec![v1::ListTenantsRequest::default().encode_to_vec()],
        );
        add(
            "/orch8.v1.TenantService/CreateKey",
            &o,
            vec![
                v1::CreateKeyRequest {
                    tenant_id: "dev".into(),
                    roles: vec![v1::Role::Client.into()],
                    ..Default::default()
                }
                .encode_to_vec(),
            ],
        );
        add("/orch8.v1.TenantService/ListKeys", &o, vec![v1::ListKeysRequest::default().encode_to_vec()]);
        add(
            "/orch8.v1.TenantService/RevokeKey",
            &o,
            vec![v1::RevokeKeyRequest { key_id: "0123456789abcdef".into() }.encode_to_vec()],
        );
        add("/orch8.v1.TenantService/WhoAmI", &o, vec![v1::WhoAmIRequest {}.encode_to_vec()]);
        add(
            "/orch8.v1.PlacementService/SetPlacement",
            &o,
            vec![
                v1::SetPlacementRequest { tenant_id: "dev".into(), store: "local".into(), epoch: 1 }
                    .encode_to_vec(),
            ],
        );
        add(
            "/orch8.v1.PlacementService/GetPlacement",
            &o,
            vec![v1::GetPlacementRequest { tenant_id: "dev".into() }.encode_to_vec()],
        );
        add(
            "/orch8.v1.PlacementService/ListPlacements",
            &o,
            vec![v1::ListPlacementsRequest::default().encode_to_vec()],
        );
        add(
            "/orch8.v1.FleetService/Watch",
            &node,
            vec![
                v1::WatchRequest { node_id: "n".into(), stores: vec!["local".into()], resume_token: 0 }
                    .encode_to_vec(),
            ],
        );
        add("/orch8.v1.FleetService/DescribeFleet", &o, vec![v1::DescribeFleetRequest {}.encode_to_vec()]);
        Self { requests, instance, sequence, client }
    }

    pub fn request(&self, path: &str) -> Option<(String, Vec<Vec<u8>>)> {
        self.requests.get(path).cloned()
    }

    /// Runs that are stored.
    pub async fn stored(&self, _engine: &Engine) -> usize {
        let (mut count, mut page_token) = (0, String::new());
        loop {
            let request = v1::ListInstancesRequest { page_size: 500, page_token, ..Default::default() };
            let page = self.client.instances().list_instances(request).await.expect("a page").into_inner();
            count += page.instances.len();
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return count;
            }
        }
    }

    /// A request about something of `dev`'s, and the same about nothing, for RPCs that look one thing up.
    pub fn foreign_and_missing(&self, path: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let nobody = "00000000-0000-7000-8000-00000000dead".to_owned();
        let both = |make: &dyn Fn(String) -> Vec<u8>, real: &str| {
            Some((make(real.to_owned()), make(nobody.clone())))
        };
        match path.rsplit('/').next()? {
            "GetSequence" => both(
                &|id| v1::GetSequenceRequest { sequence_id: id, ..Default::default() }.encode_to_vec(),
                &self.sequence,
            ),
            "StartInstance" => both(
                &|id| v1::StartInstanceRequest { sequence_id: id, ..Default::default() }.encode_to_vec(),
                &self.sequence,
            ),
            "GetInstance" => both(
                &|id| v1::GetInstanceRequest { instance_id: id, ..Default::default() }.encode_to_vec(),
                &self.instance,
            ),
            "GetTimeline" => both(
                &|id| v1::GetTimelineRequest { instance_id: id, ..Default::default() }.encode_to_vec(),
                &self.instance,
            ),
            "GetOutputs" => both(
                &|id| v1::GetOutputsRequest { instance_id: id, ..Default::default() }.encode_to_vec(),
                &self.instance,
            ),
            "WatchInstance" => both(
                &|id| v1::WatchInstanceRequest { instance_id: id, ..Default::default() }.encode_to_vec(),
                &self.instance,
            ),
            "CancelInstance" => both(
                &|id| v1::CancelInstanceRequest { instance_id: id, ..Default::default() }.encode_to_vec(),
                &self.instance,
            ),
            "SendSignal" => both(
                &|id| {
                    let signal = Some(v1::send_signal_request::Signal::Pause(v1::PauseSignal {}));
                    v1::SendSignalRequest { instance_id: id, signal, ..Default::default() }.encode_to_vec()
                },
                &self.instance,
            ),
            _ => None,
        }
    }
}
