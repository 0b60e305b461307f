//! Identity.
