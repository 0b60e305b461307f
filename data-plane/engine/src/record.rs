//! What a turn appends to the journal: the event's name, the changes it made to the state in order, and the output
//! rows it wrote. Compact JSON text: short keys, nothing that has its default, nothing that can be derived.
//!
//! A change is the only way the state moves: a turn applies each one as it records it, and recovery applies the same
//! ones again, so the two cannot differ. A change holds results, never questions: applying it evaluates no expression.
//!
//! **Invariant:** a record names blocks by what they are in the document (frame, branch, position). Numbers of frames,
//! nodes and rows are counted, not written. Iterations write their own increment, never what was gathered so far.

use orch8_model::{
    Millis, StepError,
    json::{self, JsonProblem},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::instance::{FrameNo, NodeNo, Status};

/// One committed turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The turn's instant.
    #[serde(rename = "t", default)]
    pub at: Millis,
    /// What caused it.
    #[serde(rename = "e", default, skip_serializing_if = "is_default")]
    pub cause: Cause,
    /// Output rows written by this turn.
    #[serde(rename = "o", default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputRecord>,
    /// What it did to the state, in order.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Things that did not happen and that people should know of.
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// Name of the event that caused a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    #[default]
    #[serde(rename = "r")]
    Reported,
    #[serde(rename = "s")]
    Start,
    #[serde(rename = "w")]
    Wake,
    #[serde(rename = "c")]
    Continue,
    #[serde(rename = "l")]
    Lost,
    #[serde(rename = "m")]
    Signal,
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
    #[serde(rename = "a", default, skip_serializing_if = "is_default")]
    pub attempt: u32,
    #[serde(rename = "v")]
    pub output: Value,
}

impl TurnRecord {
    /// Reads a stored record back, digit for digit. Errors: a text this version did not write.
    pub fn parse(text: &str) -> Result<Self, JsonProblem> {
        json::decode(text.as_bytes())
    }
}

/// One step of the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// A body begins below a node (0: the root body). `index`: which iteration, when it is one.
    #[serde(rename = "O")]
    Open {
        #[serde(rename = "n", default, skip_serializing_if = "is_default")]
        owner: NodeNo,
        #[serde(rename = "b", default, skip_serializing_if = "is_default")]
        branch: u32,
        #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
    },
    /// The next block of a body is activated.
    #[serde(rename = "S")]
    Start(FrameNo),
    /// A body ended; how follows from its last block and from [`Change::Doom`]. Its owner takes over the result.
    #[serde(rename = "X")]
    Close(FrameNo),
    /// A body is cancelled: nothing more starts in it, and it ends cancelled when what is protected in it has ended.
    #[serde(rename = "D")]
    Doom(FrameNo),
    /// A step waits until this instant before it is ready.
    #[serde(rename = "L")]
    Delay(NodeNo, Millis),
    /// A step's delay is over: its deadline runs from here.
    #[serde(rename = "R")]
    Ready(NodeNo),
    /// A step waits for a human.
    #[serde(rename = "G")]
    Gate(NodeNo),
    /// A human chose.
    #[serde(rename = "A")]
    Answer {
        #[serde(rename = "n")]
        node: NodeNo,
        /// Which of the published choices.
        #[serde(rename = "c", default, skip_serializing_if = "is_default")]
        choice: u32,
        #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// Place among the kept answers it was taken from, when it came before its gate.
        #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
        kept: Option<u32>,
    },
    /// An answer whose gate is not open yet.
    #[serde(rename = "H")]
    Keep(KeptAnswer),
    /// A step waits for one of the instance's places among the workers.
    #[serde(rename = "Q")]
    Queue(NodeNo),
    /// A try is put before the workers: its claim epoch rises by one.
    #[serde(rename = "P")]
    Send {
        #[serde(rename = "n")]
        node: NodeNo,
        /// Only in the first send of an activation, and not when null.
        #[serde(rename = "v", default, skip_serializing_if = "Value::is_null")]
        params: Value,
    },
    /// Params of an in-process step that may be tried again.
    #[serde(rename = "V")]
    Freeze(NodeNo, Value),
    /// A durable sleep.
    #[serde(rename = "Z")]
    Sleep(NodeNo, Millis),
    /// A try failed and another one follows at `until`.
    #[serde(rename = "B")]
    Backoff {
        #[serde(rename = "n")]
        node: NodeNo,
        #[serde(rename = "u")]
        until: Millis,
        /// The outcome was lost, not reported: a late success still counts.
        #[serde(rename = "l", default, skip_serializing_if = "is_default")]
        lost: bool,
        #[serde(rename = "e")]
        error: Box<StepError>,
    },
    /// The next try begins.
    #[serde(rename = "T")]
    Again(NodeNo),
    /// A lease ended and the step has no retry policy: the same try is sent again.
    #[serde(rename = "U")]
    LeaseLost(NodeNo),
    /// The outcome of an at-most-once try is unknown: it waits for whoever knows.
    #[serde(rename = "K")]
    Park(NodeNo),
    /// What a for_each goes over.
    #[serde(rename = "I")]
    Items {
        #[serde(rename = "n")]
        node: NodeNo,
        #[serde(rename = "v")]
        items: Vec<Value>,
        /// The collection was longer.
        #[serde(rename = "c", default, skip_serializing_if = "is_default")]
        capped: bool,
    },
    /// A loop waits before its next iteration.
    #[serde(rename = "Y")]
    Poll(NodeNo, Millis),
    /// A node ended.
    #[serde(rename = "E")]
    End {
        #[serde(rename = "n")]
        node: NodeNo,
        #[serde(rename = "h", default, skip_serializing_if = "is_default")]
        how: How,
        /// The next output row of this record belongs to it.
        #[serde(rename = "o", default, skip_serializing_if = "is_default")]
        row: bool,
        /// The row's keys were merged into data.
        #[serde(rename = "m", default, skip_serializing_if = "is_default")]
        merge: bool,
    },
    /// A value was written at a path of data.
    #[serde(rename = "W")]
    Write {
        #[serde(rename = "p")]
        path: Vec<String>,
        #[serde(rename = "v")]
        value: Value,
    },
    /// Keys were merged into data.
    #[serde(rename = "C")]
    Update(Map<String, Value>),
    #[serde(rename = "Pause")]
    Pause,
    #[serde(rename = "Resume")]
    Resume,
    /// With the caller's reason.
    #[serde(rename = "Cancel")]
    Cancel(String),
    /// Work that a paused instance does when it is resumed.
    #[serde(rename = "J")]
    Hold(Work),
    /// Work left at the turn's bound: what stays of the old list, and what comes on top.
    #[serde(rename = "N")]
    Leave {
        #[serde(rename = "k", default, skip_serializing_if = "is_default")]
        keep: usize,
        #[serde(rename = "v", default, skip_serializing_if = "Vec::is_empty")]
        push: Vec<Work>,
    },
    /// A protected part failed after a cancel: kept to be shown.
    #[serde(rename = "M")]
    Mourn(Box<StepError>),
    /// The instance ended.
    #[serde(rename = "F")]
    Finish {
        #[serde(rename = "s")]
        status: Status,
        #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
        error: Option<Box<StepError>>,
    },
}

/// How a node ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum How {
    #[default]
    #[serde(rename = "c")]
    Completed,
    #[serde(rename = "s")]
    Skipped,
    /// With the error that its body handed up.
    #[serde(rename = "i")]
    Inherited,
    /// With an error of its own.
    #[serde(rename = "f")]
    Failed(Box<StepError>),
    #[serde(rename = "x")]
    Cancelled,
}

/// Something that can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// The body's current block has ended: the next one, or the body's end.
    #[serde(rename = "b")]
    Next(FrameNo),
    /// A step has everything it waited for: its handler runs.
    #[serde(rename = "r")]
    Run(NodeNo),
}

/// A human's answer that came before its gate opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptAnswer {
    #[serde(rename = "b")]
    pub block_id: String,
    /// `None`: the oldest activation that waits.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<String>,
    #[serde(rename = "c", default, skip_serializing_if = "is_default")]
    pub choice: u32,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A recorded warning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Stable: `MERGE_SKIPPED`, `UPDATE_SKIPPED`, `SIGNAL_IGNORED`.
    #[serde(rename = "c")]
    pub code: String,
    #[serde(rename = "m")]
    pub message: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
