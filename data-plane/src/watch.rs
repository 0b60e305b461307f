//! Who wants to know when an instance changes. A hint, never the truth: watchers read the store.

use std::sync::Arc;

use dashmap::DashMap;
use orch8_model::InstanceId;
use tokio::sync::watch;

/// Watched instances. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Watchers {
    by_instance: Arc<DashMap<InstanceId, watch::Sender<u64>>>,
}

/// One watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    watchers: Watchers,
    instance: InstanceId,
    changes: watch::Receiver<u64>,
}

impl Watchers {
    /// Starts watching.
    pub fn watch(&self, instance: InstanceId) -> Watch {
        let sender = self.by_instance.entry(instance).or_insert_with(|| watch::Sender::new(0));
        let changes = sender.subscribe();
        Watch { watchers: self.clone(), instance, changes }
    }

    /// Says that the instance changed.
    pub fn changed(&self, instance: InstanceId) {
        if let Some(sender) = self.by_instance.get(&instance) {
            sender.send_modify(|version| *version = version.wrapping_add(1));
        }
    }
}

impl Watch {
    /// Returns after the next change since the last call.
    pub async fn changed(&mut self) {
        // The sender lives as long as this watch does.
        let _ = self.changes.changed().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Self { watchers, instance, changes } = self;
        // Our own receiver goes while the entry is held: of two watches that end at once one sees that it was the last.
        watchers.by_instance.remove_if(instance, |_, sender| {
            *changes = watch::channel(0).1;
            sender.receiver_count() == 0
        });
    }
}
