//! Handlers: typed ones, and raw ones that see the JSON text itself.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};

use crate::{StepContext, StepError};

/// JSON in, JSON out.
pub(crate) type Handler =
    Arc<dyn Fn(StepContext, Bytes) -> BoxFuture<'static, Result<Bytes, StepError>> + Send + Sync>;

/// A handler of JSON text.
pub(crate) fn raw<F, R>(run: F) -> Handler
where
    F: Fn(StepContext, Bytes) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Bytes, StepError>> + Send + 'static,
{
    Arc::new(move |context, input| run(context, input).boxed())
}

/// A handler of values. Input that does not fit the type fails the step for good: another try sends the same.
pub(crate) fn typed<I, O, F, R>(run: F) -> Handler
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize,
    F: Fn(StepContext, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, StepError>> + Send + 'static,
{
    let run = Arc::new(run);
    raw(move |context, input: Bytes| {
        let run = run.clone();
        async move {
            let input = serde_json::from_slice(&input).map_err(|why| {
                StepError::permanent(format!("params do not fit the handler's input: {why}"))
                    .code("INVALID_PARAMS")
            })?;
            let output = run(context, input).await?;
            serde_json::to_vec(&output).map(Bytes::from).map_err(|why| {
                StepError::permanent(format!("the output cannot be written as JSON: {why}"))
                    .code("INVALID_OUTPUT")
            })
        }
    })
}

/// Runs a handler; a panic is its failure and nobody else's.
pub(crate) async fn run(handler: Handler, context: StepContext, input: Bytes) -> Result<Bytes, StepError> {
    let call = async move { handler(context, input).await };
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|panic| {
        Err(StepError::retryable(format!("the handler panicked: {}", text_of(&*panic))).code("PANIC"))
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "without a message",
    }
}
