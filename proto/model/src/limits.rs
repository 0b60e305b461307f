//! Every bound of the language and its edges, named once. Units are in the names.

/// Tenant, namespace, sequence, block, handler, signal, key: bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 256;
/// Nesting of a JSON value; a scalar has depth 0, `[]` has depth 1.
pub const JSON_DEPTH_MAX: usize = 128;
/// A sequence document.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Blocks in all trees of a document.
pub const BLOCKS_MAX: usize = 5_000;
/// Nesting of blocks.
pub const BLOCK_NESTING_MAX: usize = 64;
/// Branches of a parallel, routes of a router.
pub const BRANCHES_MAX: usize = 256;
/// Text of one expression.
pub const EXPRESSION_BYTES_MAX: usize = 8 << 10;
/// One template string.
pub const TEMPLATE_BYTES_MAX: usize = 64 << 10;
/// `context.data` and `context.config` together, as JSON text.
pub const CONTEXT_BYTES_MAX: usize = 256 << 10;
/// Metadata of an instance, as JSON text.
pub const METADATA_BYTES_MAX: usize = 16 << 10;
/// Params of a step after templating.
pub const PARAMS_BYTES_MAX: usize = 1 << 20;
/// Output of a step, and the snapshot of a for_each.
pub const OUTPUT_BYTES_MAX: usize = 2 << 20;
/// Payload of a signal.
pub const SIGNAL_BYTES_MAX: usize = 256 << 10;
/// A worker's checkpoint.
pub const CHECKPOINT_BYTES_MAX: usize = 256 << 10;
/// Message of an error; longer text is cut and ends in `…`.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Details of an error.
pub const ERROR_DETAILS_BYTES_MAX: usize = 16 << 10;
/// One gRPC request message.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Items of StartInstances.
pub const START_BATCH_MAX: usize = 10_000;
/// Live nodes of one instance.
pub const LIVE_NODES_MAX: usize = 10_000;
/// Node activations of one instance.
pub const ACTIVATIONS_MAX: u64 = 1_000_000;
/// Signals an instance has not consumed yet.
pub const PENDING_SIGNALS_MAX: usize = 10_000;
/// Ten years: the longest duration, in milliseconds.
pub const DURATION_MS_MAX: i64 = 315_360_000_000;
/// Iterations of a loop or for_each.
pub const ITERATIONS_MAX: u32 = 100_000;
/// Tries of a step.
pub const TRIES_MAX: u32 = 100_000;
/// Problems in one answer.
pub const PROBLEMS_MAX: usize = 100;
/// Frame of a worker session.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
