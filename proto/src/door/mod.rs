//! Wire ⇄ model. Each function reads one shape of field, is total, and names the field in its fault; handlers on both
//! planes are made of them.
//!
//! In: [`name()`], [`id`], [`text`], [`instant`], [`duration`], [`json`], [`page_size`], [`PageQuery`], [`choice()`],
//! [`items`], [`required`]. Out: functions that start with `wire_`.
//!
//! It does not know which request a field belongs to, nor who asks.

mod choice;
mod name;
mod page;
mod payload;
mod time;

pub use choice::{choice, items, required};
pub use name::{id, name, namespace, optional_id, optional_name, text};
pub use page::{Keyset, PageQuery, page_size};
pub use payload::{JSON, Json, json, wire_json, wire_text};
pub use time::{duration, instant, wire_duration, wire_instant};
