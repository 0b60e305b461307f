//! Which messages of a group are stored.

use std::collections::{HashMap, HashSet};

use orch8_model::{InstanceId, limits::PENDING_SIGNALS_MAX};

use crate::store::{Message, Sent};

/// A message of a tenant that may write.
pub(in crate::store) struct Addressed<'a> {
    pub tenant_no: i64,
    pub message: &'a Message,
    /// Its key among those that are stored once.
    pub once: Vec<u8>,
}

impl<'a> Addressed<'a> {
    /// The same signal id to two instances is two signals.
    pub(in crate::store) fn new(tenant_no: i64, message: &'a Message) -> Self {
        let once = [message.instance.as_bytes().as_slice(), message.signal.as_str().as_bytes()].concat();
        Self { tenant_no, message, once }
    }
}

/// What a group of messages meets.
#[derive(Default)]
pub(in crate::store) struct Targets {
    /// By index of the message. Foreign and missing are one: no target.
    pub targets: HashMap<usize, Target>,
    pub pending: HashMap<InstanceId, usize>,
}

#[derive(Clone, Copy)]
pub(in crate::store) struct Target {
    pub known: bool,
    pub closed: bool,
}

/// Judges in order: a message sees those before it. A known signal is a duplicate even when its instance has closed.
pub(in crate::store) fn judge(open: &[Addressed<'_>], mut found: Targets) -> Vec<Sent> {
    let mut seen: HashSet<&[u8]> = HashSet::new();
    open.iter()
        .enumerate()
        .map(|(n, to)| {
            let Some(target) = found.targets.get(&n) else { return Sent::Missing };
            let pending = found.pending.entry(to.message.instance).or_default();
            match (target.known || seen.contains(to.once.as_slice()), target.closed) {
                (true, _) => Sent::Duplicate,
                (false, true) => Sent::Terminal,
                (false, false) if *pending >= PENDING_SIGNALS_MAX => Sent::Full,
                (false, false) => {
                    seen.insert(&to.once);
                    *pending += 1;
                    Sent::Stored
                }
            }
        })
        .collect()
}
