//! The error object: what catch blocks see as `_error`, and what an instance that failed keeps.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::{ERROR_DETAILS_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX};

/// Why a step, a block or an instance failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepError {
    /// Stable upper-case code.
    pub code: String,
    /// For people; at most 4 KiB.
    pub message: String,
    /// Whether another try could help.
    pub retryable: bool,
    /// At most 16 KiB of JSON, or null.
    pub details: Value,
    /// Zero-based try.
    pub attempt: u32,
    /// `step`, `engine`, or the type of the block that failed by itself.
    pub source: String,
    /// The block that reports the error.
    pub block_id: String,
    /// The step in which the error arose.
    pub leaf_block: String,
    /// Failed direct children, when a try_catch reports it.
    pub failed_blocks: Vec<String>,
    /// The saga step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<String>,
    /// The earlier error, when one followed another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<StepError>>,
}

impl StepError {
    /// An error with bounded message and details; place it with the other fields.
    pub fn new(code: &str, message: &str, retryable: bool, details: Value) -> Self {
        Self {
            code: code.to_owned(),
            message: cut(message),
            retryable,
            details: bound(details),
            attempt: 0,
            source: "step".to_owned(),
            block_id: String::new(),
            leaf_block: String::new(),
            failed_blocks: Vec::new(),
            failed_step: None,
            cause: None,
        }
    }

    /// As catch blocks see it.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }
}

fn cut(message: &str) -> String {
    if message.len() <= ERROR_MESSAGE_BYTES_MAX {
        return message.to_owned();
    }
    let mut end = ERROR_MESSAGE_BYTES_MAX - '…'.len_utf8();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &message[..end])
}

fn bound(details: Value) -> Value {
    let bytes = crate::json::print(&details).len();
    if bytes <= ERROR_DETAILS_BYTES_MAX { details } else { serde_json::json!({ "details_omitted": bytes }) }
}
