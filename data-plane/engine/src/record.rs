//! What a turn appends to the journal: the event's name, the nodes it changed (whole), the outputs it wrote, and what
//! changed in the head of the state. Compact JSON text: short keys, nothing that has its default.
//!
//! Recovery is a snapshot and these records; the timeline and the outputs are read from them too.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::instance::NodeNo;

/// One committed turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Output rows written by this turn.
    #[serde(rename = "o", default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputRecord>,
}

/// One output row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputRecord {
    /// Strictly rising per instance, from 1.
    #[serde(rename = "s")]
    pub seq: u64,
    #[serde(rename = "n")]
    pub node: NodeNo,
    #[serde(rename = "b")]
    pub block_id: String,
    #[serde(rename = "i", default, skip_serializing_if = "String::is_empty")]
    pub iteration: String,
    #[serde(rename = "a", default)]
    pub attempt: u32,
    #[serde(rename = "v")]
    pub output: Value,
}

impl TurnRecord {
    /// Reads a stored record back. Errors: a text this version did not write.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        // Values of depth 128 stand a few levels below the record.
        let mut reader = serde_json::Deserializer::from_str(text);
        reader.disable_recursion_limit();
        Self::deserialize(&mut reader)
    }
}
