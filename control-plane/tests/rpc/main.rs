//! Every RPC of the control plane through a real server on loopback: the happy path, hostile fields, foreign against
//! missing, roles, pages, and the watch.

mod access;
mod fleet;
mod keys;
mod placements;
mod rig;
mod tenants;
