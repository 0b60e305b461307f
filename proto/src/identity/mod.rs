//! Who asks, what he may call, and for which tenant.
//!
//! A call passes three checks: [`Authenticate`] finds the credential in the [`KeyRing`] and its roles in the table
//! [`access`]; the handler then makes a [`TenantScope`], the only key to a tenant's rows. What an *object* allows is
//! judged inside the operation that loads it.
//!
//! Secrets stay here: a request reaches its handler without its `authorization` header.

pub mod access;
mod authenticate;
mod certificate;
mod follow;
mod grant;
mod key_ring;
mod leash;
mod principal;

pub use authenticate::Authenticate;
pub use certificate::certificate_key;
pub use follow::Follower;
pub use grant::{Grant, role, wire_role, wire_roles};
pub use key_ring::KeyRing;
pub use principal::{Principal, TenantScope, principal, scope};
