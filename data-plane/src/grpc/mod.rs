//! Thin handlers: scope, parse, call `app`, convert, return.

pub mod worker;
