//! How each kind of object in a document is written: its fields, the accepted spellings, and what a later version will
//! run. Tables only; [`super::object`] reads by them.

/// How one kind of object is written.
#[derive(Debug)]
pub(super) struct Shape {
    /// As people call it: `loop`, `retry`.
    pub name: &'static str,
    /// Canonical fields.
    pub fields: &'static [&'static str],
    /// (accepted spelling, canonical field)
    pub spellings: &'static [(&'static str, &'static str)],
    /// (field of a later version, what to do instead)
    pub later: &'static [(&'static str, &'static str)],
    /// Fields that hold blocks: what is suggested for blocks under a key that nobody reads.
    pub bodies: &'static [&'static str],
    /// Step fields here are refused with a remedy.
    pub composite: bool,
}

const PLAIN: Shape =
    Shape { name: "", fields: &[], spellings: &[], later: &[], bodies: &[], composite: false };
const COMPOSITE: Shape = Shape { composite: true, ..PLAIN };

pub(super) const ROOT: Shape = Shape {
    name: "sequence",
    fields: &[
        "id",
        "tenant_id",
        "namespace",
        "name",
        "version",
        "deprecated",
        "status",
        "blocks",
        "created_at",
    ],
    spellings: &[("steps", "blocks")],
    later: &[
        ("input_schema", "check context.data with an assert step at the start"),
        ("interceptors", "put steps before and after the ones to watch"),
        ("sla", "give the steps a timeout or a deadline"),
        ("on_failure", "put the blocks into a try_catch and the clean-up into its catch_block"),
        ("on_cancel", "put the blocks into a try_catch and the clean-up into its finally_block"),
    ],
    bodies: &["blocks"],
    ..PLAIN
};

pub(super) const STEP: Shape = Shape {
    name: "step",
    fields: &[
        "type",
        "id",
        "handler",
        "params",
        "when",
        "delay",
        "retry",
        "timeout",
        "schedule_to_start_timeout",
        "deadline",
        "wait_for_input",
        "cancellable",
        "delivery",
        "merge_output",
    ],
    later: &[
        ("send_window", "use delay with fire_at_local or business_days_only"),
        ("rate_limit_key", "limit the rate inside the worker"),
        ("queue_name", "give the worker a handler name of its own"),
        ("fallback_handler", "put the step into a try_catch and the fallback into its catch_block"),
        ("cache_key", "keep the value in context.data and guard the step with when"),
        ("output_schema", "check the output with an assert step behind this one"),
        ("context_access", "leave it out; the handler receives the whole context"),
        ("compensation", "put the step into a try_catch and what undoes it into its catch_block"),
        (
            "on_deadline_breach",
            "put the step into a try_catch; a passed deadline is caught by its catch_block",
        ),
    ],
    ..PLAIN
};

pub(super) const PARALLEL: Shape = Shape {
    name: "parallel",
    fields: &["type", "id", "branches", "fail_fast"],
    spellings: &[("blocks", "branches")],
    bodies: &["branches"],
    ..COMPOSITE
};

pub(super) const ROUTER: Shape = Shape {
    name: "router",
    fields: &["type", "id", "routes", "default"],
    spellings: &[("else", "default")],
    bodies: &["routes", "default"],
    ..COMPOSITE
};

pub(super) const ROUTE: Shape =
    Shape { name: "route", fields: &["condition", "blocks"], bodies: &["blocks"], ..PLAIN };

pub(super) const TRY_CATCH: Shape = Shape {
    name: "try_catch",
    fields: &["type", "id", "try_block", "catch_block", "finally_block"],
    spellings: &[("try", "try_block"), ("catch", "catch_block"), ("finally", "finally_block")],
    bodies: &["try_block", "catch_block", "finally_block"],
    ..COMPOSITE
};

pub(super) const LOOP: Shape = Shape {
    name: "loop",
    fields: &[
        "type",
        "id",
        "condition",
        "body",
        "max_iterations",
        "break_on",
        "continue_on_error",
        "poll_interval",
        "retain_iterations",
        "on_max_iterations",
    ],
    spellings: &[("blocks", "body")],
    bodies: &["body"],
    ..COMPOSITE
};

pub(super) const FOR_EACH: Shape = Shape {
    name: "for_each",
    fields: &[
        "type",
        "id",
        "collection",
        "item_var",
        "body",
        "max_iterations",
        "concurrency",
        "continue_on_error",
        "retain_iterations",
        "on_max_iterations",
    ],
    spellings: &[("blocks", "body")],
    bodies: &["body"],
    ..COMPOSITE
};

pub(super) const RETRY: Shape = Shape {
    name: "retry",
    fields: &[
        "max_attempts",
        "initial_backoff",
        "max_backoff",
        "backoff_multiplier",
        "jitter",
        "retry_if",
        "non_retryable_codes",
    ],
    ..PLAIN
};

pub(super) const DELAY: Shape = Shape {
    name: "delay",
    fields: &["duration", "business_days_only", "jitter", "holidays", "fire_at_local", "timezone"],
    ..PLAIN
};

pub(super) const GATE: Shape = Shape {
    name: "wait_for_input",
    fields: &["prompt", "timeout", "escalation_handler", "choices", "store_as", "allow_comment"],
    ..PLAIN
};

pub(super) const CHOICE: Shape = Shape { name: "choice", fields: &["label", "value"], ..PLAIN };

/// Types of blocks that this version runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockType {
    Step,
    Parallel,
    Router,
    TryCatch,
    Loop,
    ForEach,
}

impl BlockType {
    const ALL: &[BlockType] = &[
        BlockType::Step,
        BlockType::Parallel,
        BlockType::Router,
        BlockType::TryCatch,
        BlockType::Loop,
        BlockType::ForEach,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|block_type| block_type.shape().name == name)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|block_type| block_type.shape().name)
    }

    pub(super) fn shape(self) -> &'static Shape {
        match self {
            BlockType::Step => &STEP,
            BlockType::Parallel => &PARALLEL,
            BlockType::Router => &ROUTER,
            BlockType::TryCatch => &TRY_CATCH,
            BlockType::Loop => &LOOP,
            BlockType::ForEach => &FOR_EACH,
        }
    }
}

/// (type of a later version, what to do instead)
pub(super) const LATER_TYPES: &[(&str, &str)] = &[
    ("race", "use a parallel and a router behind it"),
    ("sub_sequence", "put its blocks in this place, or let a worker start the other sequence"),
    ("a_b_split", "use a router"),
    ("ab_split", "use a router"),
    ("cancellation_scope", "set cancellable to false on its steps"),
    ("saga", "put the actions into a try_catch and what undoes them into its catch_block"),
];

/// What to do with a step field found on a composite block. `None`: not a step field.
pub(super) fn step_field_remedy(key: &str) -> Option<&'static str> {
    Some(match key {
        "when" => "put the block into a route of a router with this condition",
        "retry" => "give retry to the steps inside; a try_catch around the block catches what stays failed",
        "timeout" | "schedule_to_start_timeout" | "deadline" | "on_deadline_breach" => {
            "give it to the steps inside; a try_catch around the block catches what runs out of time"
        }
        "delay" | "send_window" => "put it on the first step inside, or a sleep step before the block",
        "wait_for_input" => "put it on a step before the block",
        "handler" | "params" => "put a step with this handler inside",
        "compensation" | "fallback_handler" => "put the block into a try_catch",
        _ if STEP.fields.contains(&key) && !matches!(key, "type" | "id") => "give it to a step inside",
        _ if STEP.later.iter().any(|(field, _)| *field == key) => "give it to a step inside",
        _ => return None,
    })
}
