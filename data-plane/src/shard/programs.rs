//! Parsed sequences, kept by identity: a version never changes, so it is parsed once per process.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use orch8_engine::{Program, publish};
use orch8_model::{Namespace, SequenceId, SequenceName, TenantId};

use crate::store::{SequenceRow, Store, StoreError, TenantHandle};

/// A version, runnable.
#[derive(Debug)]
pub struct Compiled {
    pub id: SequenceId,
    pub namespace: Namespace,
    pub name: SequenceName,
    pub version: i32,
    pub program: Program,
}

/// The cache. Per tenant and in all it is bounded: a tenant with many sequences evicts its own first.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    inner: Arc<Mutex<Cache>>,
}

#[derive(Debug, Default)]
struct Cache {
    tenants: HashMap<TenantId, Drawer>,
    len: usize,
}

#[derive(Debug, Default)]
struct Drawer {
    programs: HashMap<SequenceId, Arc<Compiled>>,
    order: VecDeque<SequenceId>,
}

impl Programs {
    /// Versions kept per tenant: more than anybody runs at once, and 256 × 1 MiB documents at worst.
    pub const PER_TENANT_MAX: usize = 256;
    /// Versions kept in all.
    pub const MAX: usize = 4096;

    /// The program of a version; reads and parses it when it is not known. `None`: there is no such version here.
    pub async fn get(
        &self,
        store: &Store,
        tenant: &TenantHandle,
        id: SequenceId,
    ) -> Result<Option<Arc<Compiled>>, StoreError> {
        if let Some(known) = self.known(&tenant.tenant, id) {
            return Ok(Some(known));
        }
        let Some(row) = store.sequence(tenant, id).await? else { return Ok(None) };
        self.keep(&tenant.tenant, row).map(Some)
    }

    fn known(&self, tenant: &TenantId, id: SequenceId) -> Option<Arc<Compiled>> {
        let cache = self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        cache.tenants.get(tenant)?.programs.get(&id).cloned()
    }

    /// Parses a stored version and keeps it.
    fn keep(&self, tenant: &TenantId, row: SequenceRow) -> Result<Arc<Compiled>, StoreError> {
        let published = publish::check(&row.document).map_err(|_| StoreError::Corrupt {
            table: "sequences",
            column: "document",
            key: row.id.to_string(),
        })?;
        let compiled = Arc::new(Compiled {
            id: row.id,
            namespace: row.namespace,
            name: row.name,
            version: row.version,
            program: published.program,
        });
        let mut cache = self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        cache.insert(tenant, Arc::clone(&compiled));
        Ok(compiled)
    }
}

impl Cache {
    fn insert(&mut self, tenant: &TenantId, compiled: Arc<Compiled>) {
        if self.len >= Programs::MAX && !self.tenants.contains_key(tenant) {
            // Whoever holds most gives way: a newcomer is never refused because of a neighbour.
            let largest = self.tenants.iter().max_by_key(|(_, d)| d.order.len()).map(|(t, _)| t.clone());
            if let Some(largest) = largest {
                self.evict(&largest);
            }
        }
        let drawer = self.tenants.entry(tenant.clone()).or_default();
        if drawer.programs.insert(compiled.id, Arc::clone(&compiled)).is_none() {
            drawer.order.push_back(compiled.id);
            self.len += 1;
        }
        if drawer.order.len() > Programs::PER_TENANT_MAX || self.len > Programs::MAX {
            self.evict(&tenant.clone());
        }
    }

    fn evict(&mut self, tenant: &TenantId) {
        if let Some(drawer) = self.tenants.get_mut(tenant)
            && let Some(oldest) = drawer.order.pop_front()
        {
            drawer.programs.remove(&oldest);
            self.len -= 1;
        }
    }
}
