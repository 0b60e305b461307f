//! A published sequence, parsed: blocks and bodies in two arenas, expressions and templates compiled.
//!
//! A [`Program`] that exists is runnable: every rule of publishing holds. Built by [`crate::publish`] only.

use std::{collections::HashMap, sync::Arc};

use crate::{
    expr::{BlockIds, Expr, SyntaxError},
    template::Template,
};

/// Index of a block in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIx(pub u32);

/// Index of a body in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyIx(pub u32);

/// A runnable sequence. The root body is body 0.
#[derive(Debug)]
pub struct Program {
    pub blocks: Vec<Block>,
    pub bodies: Vec<Body>,
    pub by_id: HashMap<Arc<str>, BlockIx>,
    pub ids: BlockIds,
}

impl Program {
    /// The root body.
    pub const ROOT: BodyIx = BodyIx(0);

    pub fn block(&self, ix: BlockIx) -> &Block {
        &self.blocks[ix.0 as usize]
    }

    pub fn body(&self, ix: BodyIx) -> &Body {
        &self.bodies[ix.0 as usize]
    }
}

/// Blocks that run in order.
#[derive(Debug)]
pub struct Body {
    /// `None` for the root.
    pub owner: Option<BlockIx>,
    /// Branch, route (default = number of routes), or phase (try 0, catch 1, finally 2) of the owner.
    pub branch: u32,
    pub blocks: Vec<BlockIx>,
}

/// An element of a sequence.
#[derive(Debug)]
pub struct Block {
    pub id: Arc<str>,
    /// The body it stands in, and its place there.
    pub body: BodyIx,
    pub position: u32,
    /// Block ids from root to this one.
    pub path: Vec<Arc<str>>,
    /// Enclosing loops and for_eachs, outermost first.
    pub loops: Vec<BlockIx>,
    pub kind: Kind,
}

/// What a block does.
#[derive(Debug)]
pub enum Kind {
    Step(Box<Step>),
    Parallel {
        branches: Vec<BodyIx>,
        fail_fast: bool,
    },
    /// Routes in order; `default` is the body whose branch is `routes.len()`.
    Router {
        routes: Vec<(Expr, BodyIx)>,
        default: Option<BodyIx>,
    },
    TryCatch {
        try_: BodyIx,
        catch: BodyIx,
        finally: Option<BodyIx>,
    },
    Loop(Box<Loop>),
    ForEach(Box<ForEach>),
}

impl Kind {
    /// As written in documents: `step`, `parallel`, …
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Step(_) => "step",
            Kind::Parallel { .. } => "parallel",
            Kind::Router { .. } => "router",
            Kind::TryCatch { .. } => "try_catch",
            Kind::Loop(_) => "loop",
            Kind::ForEach(_) => "for_each",
        }
    }
}

#[derive(Debug)]
pub struct Loop {
    pub condition: Expr,
    pub body: BodyIx,
    pub max_iterations: u32,
    pub break_on: Option<Expr>,
    pub continue_on_error: bool,
    /// Milliseconds between iterations.
    pub poll_ms: Option<i64>,
    /// 0 = all.
    pub retain_iterations: u32,
    pub fail_on_max: bool,
}

#[derive(Debug)]
pub struct ForEach {
    pub collection: Template,
    pub item_var: Arc<str>,
    pub body: BodyIx,
    pub max_iterations: u32,
    pub concurrency: u32,
    pub continue_on_error: bool,
    pub retain_iterations: u32,
    pub fail_on_max: bool,
}

/// A step: one handler and when, how often and how long it is tried.
#[derive(Debug)]
pub struct Step {
    pub handler: Handler,
    /// Params, without the texts that a built-in takes verbatim: null for an evaluating `transform`, and for `assert`
    /// what stands beside `condition`.
    pub params: Template,
    /// `Err`: the text does not parse; the step fails permanently with `EXPRESSION_SYNTAX` when reached.
    pub when: Option<Result<Expr, SyntaxError>>,
    pub delay: Option<Delay>,
    pub retry: Option<Retry>,
    /// Start-to-close of one try, ms.
    pub timeout_ms: Option<i64>,
    pub schedule_to_start_ms: Option<i64>,
    /// Whole activation from `ready_at`, ms.
    pub deadline_ms: Option<i64>,
    pub gate: Option<Gate>,
    pub cancellable: bool,
    pub at_most_once: bool,
    pub merge_output: bool,
}

/// Who runs a step.
#[derive(Debug)]
pub enum Handler {
    Noop,
    Log,
    Sleep,
    Fail,
    /// Exactly `expression` and `target`: evaluated and written at the path. Otherwise the params are the output.
    Transform(Option<(Expr, Vec<Arc<str>>)>),
    /// The text as written, and parsed.
    Assert {
        text: Arc<str>,
        condition: Expr,
    },
    /// A built-in without its required params: the step fails permanently with `INVALID_PARAMS` when reached.
    Invalid {
        name: Arc<str>,
        message: Arc<str>,
    },
    /// A name of a later version: the step fails permanently with `HANDLER_NOT_SUPPORTED`.
    Unsupported(Arc<str>),
    /// Everything else.
    Worker(Arc<str>),
}

impl Handler {
    /// As written in documents.
    pub fn name(&self) -> &str {
        match self {
            Handler::Noop => "noop",
            Handler::Log => "log",
            Handler::Sleep => "sleep",
            Handler::Fail => "fail",
            Handler::Transform(_) => "transform",
            Handler::Assert { .. } => "assert",
            Handler::Invalid { name, .. } | Handler::Unsupported(name) | Handler::Worker(name) => name,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Retry {
    /// Total tries.
    pub max_attempts: u32,
    pub initial_ms: i64,
    pub max_ms: i64,
    pub multiplier: f64,
    pub jitter: Jitter,
    pub retry_if: Option<Expr>,
    pub non_retryable_codes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Uniform in [base(1−j), base(1+j)], then clamped to [initial, max].
    Fraction(f64),
    /// Uniform in [0, base].
    Full,
}

/// `delay`: the target is computed once, at activation.
#[derive(Clone, Debug)]
pub struct Delay {
    pub duration_ms: i64,
    pub jitter_ms: i64,
    pub business_days_only: bool,
    /// `YYYY-MM-DD`.
    pub holidays: Vec<chrono::NaiveDate>,
    /// Local wall time.
    pub fire_at_local: Option<chrono::NaiveDateTime>,
    pub timezone: Option<chrono_tz::Tz>,
}

#[derive(Clone, Debug)]
pub struct Gate {
    pub prompt: String,
    pub timeout_ms: Option<i64>,
    /// Only recorded in this version when it is not in-process.
    pub escalation_handler: Option<String>,
    /// (label, value)
    pub choices: Vec<(String, serde_json::Value)>,
    pub store_as: Option<Arc<str>>,
    pub allow_comment: bool,
}
