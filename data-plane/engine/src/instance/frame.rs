//! A frame: one activation of a body. It holds where the body stands, and, when the body is an iteration (or the
//! root), the newest output and error of every block that ran inside: they are forgotten with the iteration.

use std::collections::{BTreeMap, BTreeSet};

use orch8_model::StepError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FrameNo, NodeNo, shared::Shared};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Frame {
    /// The node whose body this is; 0 = the root.
    #[serde(rename = "n")]
    pub owner: NodeNo,
    /// Branch, route or phase of the owner.
    #[serde(rename = "b")]
    pub branch: u32,
    /// Index of the body in the program.
    #[serde(rename = "y")]
    pub body: u32,
    /// Indexes of the enclosing iterations, outermost first.
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<u32>,
    /// This body is an iteration: its index is the last of `path`.
    #[serde(rename = "i", default, skip_serializing_if = "std::ops::Not::not")]
    pub iteration: bool,
    /// The nearest frame, this one included, that is an iteration or the root.
    #[serde(rename = "h")]
    pub home: FrameNo,
    /// Position of the next block to start.
    #[serde(rename = "c")]
    pub cursor: u32,
    /// The live node of the block before the cursor.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeNo>,
    /// How that block ended.
    #[serde(rename = "e", default, skip_serializing_if = "Ended::is_fine")]
    pub last: Ended,
    /// Cancelled: nothing more starts here.
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    pub doomed: bool,
    /// `_error` for the blocks inside.
    #[serde(
        rename = "x",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::shared::present"
    )]
    pub error: Option<Shared<Value>>,
    /// Result of the last completed block; kept inside loops only, where somebody will ask for it.
    #[serde(
        rename = "r",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::shared::present"
    )]
    pub result: Option<Shared<Value>>,
    /// Newest output by block, of the blocks inside. Only in iterations and in the root.
    #[serde(rename = "o", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rows: BTreeMap<u32, Shared<Value>>,
    /// Newest error by block.
    #[serde(rename = "f", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<u32, Shared<Value>>,
    /// Live loops and for_eachs inside, by block: their rows are computed when they are read. Derived.
    #[serde(skip)]
    pub live: BTreeMap<u32, BTreeSet<NodeNo>>,
}

/// How something ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Ended {
    #[default]
    #[serde(rename = "c")]
    Completed,
    #[serde(rename = "f")]
    Failed(Shared<StepError>),
    #[serde(rename = "x")]
    Cancelled,
}

impl Ended {
    pub(crate) fn is_fine(&self) -> bool {
        matches!(self, Ended::Completed)
    }

    /// Of two parts of one block: a failure counts more than a cancel, the first failure more than a later one.
    pub(crate) fn and(&mut self, other: &Ended) {
        match (&*self, other) {
            (Ended::Completed, _) | (Ended::Cancelled, Ended::Failed(_)) => *self = other.clone(),
            (Ended::Failed(_), _) | (Ended::Cancelled, Ended::Completed | Ended::Cancelled) => {}
        }
    }
}

impl Frame {
    /// How the body ends when it ends now.
    pub(crate) fn ended(&self) -> Ended {
        if self.doomed { Ended::Cancelled } else { self.last.clone() }
    }

    /// Position of the block that is live or has just ended.
    pub(crate) fn current(&self) -> Option<usize> {
        self.cursor.checked_sub(1).map(|at| at as usize)
    }

    /// Whether results of blocks inside are asked for by an enclosing loop.
    pub(crate) fn wants_results(&self) -> bool {
        !self.path.is_empty()
    }

    /// Text of the iteration path: `0.2`, empty outside loops.
    pub(crate) fn iteration_text(&self) -> String {
        let mut text = String::new();
        for (depth, index) in self.path.iter().enumerate() {
            if depth > 0 {
                text.push('.');
            }
            text.push_str(&index.to_string());
        }
        text
    }
}

impl Frame {
    /// Rough resident size.
    pub(crate) fn weight(&self) -> usize {
        let rows = self.rows.values().chain(self.errors.values()).chain(&self.result);
        size_of::<Self>() + rows.map(|row| size_of::<Shared<Value>>() + 2 * row.bytes()).sum::<usize>()
    }
}
