//! The data planes that follow: who, since when, how far. In memory: a node that is gone watches again.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use orch8_model::{Millis, NodeName};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Nodes that watch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fleet {
    nodes: Arc<Mutex<Vec<Arc<Watcher>>>>,
    newest: watch::Sender<u64>,
    stop: CancellationToken,
}

/// One watching node.
#[derive(Debug)]
pub struct Watcher {
    pub node: NodeName,
    pub stores: Vec<String>,
    pub connected_at: Millis,
    sent: AtomicU64,
}

impl Watcher {
    /// Token of the last change sent to it.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub fn has_sent(&self, token: u64) {
        self.sent.store(token, Ordering::Relaxed);
    }
}

/// A seat in the list, given back when dropped.
#[derive(Debug)]
pub struct Seat {
    fleet: Fleet,
    pub watcher: Arc<Watcher>,
}

impl Fleet {
    /// Nodes that may watch at once: a fleet of one control plane.
    pub const WATCHERS_MAX: usize = 1_024;

    pub fn new(newest: u64) -> Self {
        Self { nodes: Arc::default(), newest: watch::Sender::new(newest), stop: CancellationToken::new() }
    }

    /// Takes a seat. `None`: all are taken.
    pub fn enter(&self, node: NodeName, stores: Vec<String>, now: Millis) -> Option<Seat> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if nodes.len() >= Self::WATCHERS_MAX {
            return None;
        }
        let watcher = Arc::new(Watcher { node, stores, connected_at: now, sent: AtomicU64::new(0) });
        nodes.push(Arc::clone(&watcher));
        Some(Seat { fleet: self.clone(), watcher })
    }

    /// Every node that watches now.
    pub fn watchers(&self) -> Vec<Arc<Watcher>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Rung after every committed change, with its number.
    pub fn changed(&self, seq: u64) {
        self.newest.send_modify(|newest| *newest = seq.max(*newest));
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Fires when the control plane closes.
    pub fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub fn close(&self) {
        self.stop.cancel();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut nodes = self.fleet.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|other| !Arc::ptr_eq(other, &self.watcher));
    }
}
