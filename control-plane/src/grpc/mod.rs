//! Thin handlers: parse, call `app`, convert, return. Roles are checked by the guard before every service.

mod fleet;
mod join;
mod placements;
mod tenants;

pub use fleet::FleetApi;
pub use placements::Placements;
pub use tenants::Tenants;

use orch8_model::Millis;

/// Rows of a page when nobody says, and at most.
const PAGE: u32 = 50;
const PAGE_MAX: u32 = 500;

/// The clock of the rim.
fn now() -> Millis {
    Millis::from(chrono::Utc::now())
}
