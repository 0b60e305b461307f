//! The workflow language, row by row: a document, what its workers do, and the exact outcome.

mod bodies;
mod effects;
mod gates;
mod loops;
mod random;
mod stage;
mod steps;
mod time;
