//! What is stored, by identity: two of them do not differ when nothing was added and nothing lost.

use std::collections::BTreeSet;

use orch8_proto::v1;
use prost::Message;

use crate::rig::{Client, Engine};

/// Tenants whose rows are counted: those that are placed.
const TENANTS: [&str; 2] = ["dev", "other"];

/// Everything that RPCs make, by kind and id.
pub struct Census(BTreeSet<(&'static str, String)>);

impl Census {
    /// Counts what the engine lists.
    pub async fn take(engine: &Engine) -> Self {
        let mut found = Self(BTreeSet::new());
        let operator = engine.operator();
        found.deployment(&operator).await;
        for tenant in TENANTS {
            found.rows(&operator, tenant).await;
        }
        found
    }

    /// Adds what an RPC answered OK to.
    pub fn add(&mut self, rpc: &str, answer: &[u8]) {
        match rpc {
            "PublishSequence" => {
                self.put("sequence", read::<v1::PublishSequenceResponse>(answer).sequence_id);
            }
            "StartInstance" => self.put("instance", read::<v1::StartInstanceResponse>(answer).instance_id),
            "StartInstances" => {
                for item in read::<v1::StartInstancesResponse>(answer).items {
                    self.put("instance", item.instance_id);
                }
            }
            "CreateTenant" => {
                let made = read::<v1::CreateTenantResponse>(answer).tenant.unwrap_or_default();
                self.put("tenant", made.tenant_id);
            }
            "CreateKey" => {
                self.put("key", read::<v1::CreateKeyResponse>(answer).key.unwrap_or_default().key_id);
            }
            "SetPlacement" => {
                let set = read::<v1::SetPlacementResponse>(answer).placement.unwrap_or_default();
                self.put("placement", set.tenant_id);
            }
            "RegisterStore" => {
                let known = read::<v1::RegisterStoreResponse>(answer).store.unwrap_or_default();
                self.put("store", known.name);
            }
            _ => {}
        }
    }

    /// What only one of them has.
    pub fn differs(&self, other: &Self) -> Vec<(&'static str, String)> {
        self.0.symmetric_difference(&other.0).cloned().collect()
    }

    fn put(&mut self, kind: &'static str, id: String) {
        self.0.insert((kind, id));
    }

    async fn deployment(&mut self, operator: &Client) {
        let (page_size, mut page_token) = (500, String::new());
        loop {
            let request = v1::ListTenantsRequest { page_size, page_token };
            let page = operator.tenants().list_tenants(request).await.expect("tenants").into_inner();
            page.tenants.into_iter().for_each(|row| self.put("tenant", row.tenant_id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        loop {
            let request = v1::ListKeysRequest { page_size, page_token, ..Default::default() };
            let page = operator.tenants().list_keys(request).await.expect("keys").into_inner();
            page.keys.into_iter().for_each(|row| self.put("key", row.key_id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        loop {
            let request = v1::ListStoresRequest { page_size, page_token };
            let page = operator.placements().list_stores(request).await.expect("stores").into_inner();
            page.stores.into_iter().for_each(|row| self.put("store", row.name));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        loop {
            let request = v1::ListPlacementsRequest { page_size, page_token };
            let page = operator.placements().list_placements(request).await.expect("placements").into_inner();
            page.placements.into_iter().for_each(|row| self.put("placement", row.tenant_id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
    }

    async fn rows(&mut self, operator: &Client, tenant: &str) {
        let (page_size, mut page_token) = (500, String::new());
        let tenant_id = || tenant.to_owned();
        loop {
            let request = v1::ListSequencesRequest {
                tenant_id: tenant_id(),
                page_size,
                page_token,
                ..Default::default()
            };
            let page = operator.sequences().list_sequences(request).await.expect("sequences").into_inner();
            page.sequences.into_iter().for_each(|row| self.put("sequence", row.sequence_id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        loop {
            let request = v1::ListInstancesRequest {
                tenant_id: tenant_id(),
                page_size,
                page_token,
                ..Default::default()
            };
            let page = operator.instances().list_instances(request).await.expect("instances").into_inner();
            page.instances.into_iter().for_each(|row| self.put("instance", row.instance_id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
    }
}

fn read<M: Message + Default>(answer: &[u8]) -> M {
    M::decode(answer).expect("an answer")
}
