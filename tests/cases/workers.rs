//! Workers for the scenarios: real ones, over the stream.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use orch8_worker::{StepContext, StepError, Worker};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::rig::Client;

/// A worker that counts how often its handler ran. Stops when dropped.
pub struct Counting {
    runs: Arc<AtomicU64>,
    stop: Option<oneshot::Sender<()>>,
    _task: JoinHandle<()>,
}

impl Counting {
    pub fn start<F, R>(client: &Client, handler: &str, work: F) -> Self
    where
        F: Fn(StepContext, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, StepError>> + Send + 'static,
    {
        let runs = Arc::new(AtomicU64::new(0));
        let counter = runs.clone();
        let (stop, stopped) = oneshot::channel();
        let worker = Worker::builder(client.address.clone())
            .credential(client.key.clone())
            .handler(handler, move |context: StepContext, input: Value| {
                counter.fetch_add(1, Ordering::Relaxed);
                work(context, input)
            })
            .max_in_flight(64)
            .run(async {
                let _ = stopped.await;
            });
        let task = tokio::spawn(async {
            let _ = worker.await;
        });
        Self { runs, stop: Some(stop), _task: task }
    }

    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}
