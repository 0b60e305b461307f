//! What a handler knows of its step.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use orch8_proto::{door, v1};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::runner::Event;

/// Largest checkpoint, in bytes.
const CHECKPOINT_BYTES_MAX: usize = 256 << 10;

/// One try of one step. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StepContext(Arc<Step>);

#[derive(Debug)]
struct Step {
    task: v1::Task,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    cancelled: CancellationToken,
    events: mpsc::Sender<Event>,
    progress: AtomicU64,
}

/// Why a checkpoint was not sent.
#[derive(Debug, thiserror::Error)]
pub enum ProgressError {
    /// It is larger than checkpoints may be; bytes.
    #[error("the checkpoint has {bytes} bytes, at most {CHECKPOINT_BYTES_MAX} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It cannot be written as JSON.
    #[error("the checkpoint cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The step is no longer wanted.
    #[error("the step was taken away from this worker")]
    Cancelled,
}

impl StepContext {
    pub(crate) fn new(
        task: v1::Task,
        received: Instant,
        cancelled: CancellationToken,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let timeout = door::duration("timeout", task.timeout).ok().flatten();
        let deadline = timeout.and_then(|timeout| received.checked_add(timeout));
        Self(Arc::new(Step { task, timeout, deadline, cancelled, events, progress: AtomicU64::new(0) }))
    }

    /// Zero-based try.
    pub fn attempt(&self) -> u32 {
        self.0.task.lease.as_ref().map_or(0, |lease| lease.attempt)
    }

    /// The same for every try and redelivery of this step, different for every other. Lower hex.
    pub fn idempotency_key(&self) -> &str {
        &self.0.task.idempotency_key
    }

    /// How long this try may take, from its arrival here. `None`: no limit.
    pub fn timeout(&self) -> Option<Duration> {
        self.0.timeout
    }

    /// When this try is given up. `None`: never.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Whose step it is.
    pub fn tenant(&self) -> &str {
        &self.0.task.tenant_id
    }

    /// UUID of the instance.
    pub fn instance_id(&self) -> &str {
        &self.0.task.instance_id
    }

    /// UUID of the execution, the same wherever it moves.
    pub fn continuity_id(&self) -> &str {
        &self.0.task.continuity_id
    }

    /// Name of the sequence.
    pub fn sequence(&self) -> &str {
        &self.0.task.sequence_name
    }

    /// Name under which the step called this handler.
    pub fn handler(&self) -> &str {
        &self.0.task.handler
    }

    /// Id of the step's block.
    pub fn block_id(&self) -> &str {
        &self.0.task.block_id
    }

    /// Block ids from the root to the step.
    pub fn block_path(&self) -> &[String] {
        &self.0.task.block_path
    }

    /// Zero-based indexes of the loops around the step, outermost first: `0.2`. Empty outside loops.
    pub fn iteration(&self) -> &str {
        &self.0.task.iteration
    }

    /// Whether the engine sends this step again by itself when its outcome is lost.
    pub fn is_at_most_once(&self) -> bool {
        self.0.task.delivery() == v1::Delivery::AtMostOnce
    }

    /// W3C trace context of the engine; empty when there is none.
    pub fn traceparent(&self) -> &str {
        &self.0.task.traceparent
    }

    /// The context as the step may see it, `{"data": …, "config": …}`, as JSON text.
    pub fn context_json(&self) -> &[u8] {
        self.0.task.context.as_ref().map_or(b"null", |context| &context.data)
    }

    /// [`Self::context_json`] as a value.
    pub fn context<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.context_json())
    }

    /// The last checkpoint of an earlier delivery.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Option<Result<T, serde_json::Error>> {
        self.0.task.checkpoint.as_ref().map(|checkpoint| serde_json::from_slice(&checkpoint.data))
    }

    /// Fires when the step is no longer wanted here: cancelled, timed out, given to another worker, or the drain time
    /// of this worker passed. What the handler returns afterwards is not reported.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.0.cancelled
    }

    /// Waits for [`Self::cancellation`].
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.0.cancelled.cancelled()
    }

    /// Whether the step is no longer wanted here.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// Says how far the step is. The newest checkpoint is handed to the next delivery, should this one be lost.
    ///
    /// Errors: over 256 KiB, not JSON, cancelled.
    pub async fn progress(&self, checkpoint: &impl Serialize) -> Result<(), ProgressError> {
        let data = serde_json::to_vec(checkpoint)?;
        if data.len() > CHECKPOINT_BYTES_MAX {
            return Err(ProgressError::TooLarge { bytes: data.len() });
        }
        if self.is_cancelled() {
            return Err(ProgressError::Cancelled);
        }
        let seq = self.0.progress.fetch_add(1, Ordering::Relaxed) + 1;
        let progress = v1::Progress {
            lease: self.0.task.lease.clone(),
            route: self.0.task.route,
            seq,
            checkpoint: Some(v1::Payload { data: Bytes::from(data), content_type: String::new() }),
        };
        self.0.events.send(Event::Progress(progress)).await.map_err(|_| ProgressError::Cancelled)
    }
}
