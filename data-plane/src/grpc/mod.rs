//! Thin handlers: scope, parse, call `app`, convert, return. No decision is made here.

mod instances;
mod sequences;
mod signals;
mod wire;
mod worker;

pub use instances::Instances;
pub use sequences::Sequences;
pub use signals::Signals;
pub use worker::Workers;

use orch8_model::{Millis, TenantId};
use orch8_proto::{identity, status};
use tonic::{Request, Status};

/// The clock of the rim.
fn now() -> Millis {
    Millis::from(chrono::Utc::now())
}

/// The tenant a request speaks for. Errors: `TENANT_MISMATCH`, an ill-formed name.
#[allow(clippy::result_large_err)]
fn tenant<T>(request: &Request<T>, asked: &str) -> Result<TenantId, Status> {
    identity::scope(request, asked).map(|scope| scope.tenant().clone()).map_err(status::of)
}
