//! Which starts of a group are new.

use std::collections::HashMap;

use orch8_model::{IdempotencyKey, InstanceId};
use orch8_seal::Digest;

use crate::store::{Start, Started};

/// Starts of a tenant that may write.
pub(in crate::store) struct Open<'a> {
    pub tenant_no: i64,
    pub starts: &'a [Start],
}

/// Who holds a tenant's key, and for which body.
pub(in crate::store) type Known<'a> = HashMap<(i64, &'a IdempotencyKey), (Digest, InstanceId)>;

impl<'a> Open<'a> {
    /// Judges in order: the second use of a key meets the first. A batch that is refused uses none.
    pub(in crate::store) fn judge(&self, known: &mut Known<'a>) -> Vec<Started> {
        let mut used: Known<'a> = HashMap::new();
        let answers: Vec<Started> =
            self.starts.iter().map(|start| self.judge_one(start, known, &mut used)).collect();
        if !refused(&answers) {
            known.extend(used);
        }
        answers
    }

    fn judge_one(&self, start: &'a Start, known: &Known<'a>, used: &mut Known<'a>) -> Started {
        let instance = start.birth.instance;
        let Some((key, body)) = &start.once else { return Started::New(instance) };
        let key = (self.tenant_no, key);
        match known.get(&key).or_else(|| used.get(&key)) {
            None => {
                used.insert(key, (*body, instance));
                Started::New(instance)
            }
            Some((same, holder)) if same == body => Started::Deduplicated(*holder),
            Some((_, holder)) => Started::Mismatch(*holder),
        }
    }
}

/// Keys that the group uses.
pub(in crate::store) fn keys<'a>(open: &[Open<'a>]) -> Vec<(i64, &'a IdempotencyKey)> {
    let of = |open: &Open<'a>| {
        let no = open.tenant_no;
        open.starts.iter().filter_map(move |start| Some((no, &start.once.as_ref()?.0)))
    };
    open.iter().flat_map(of).collect()
}

/// All or nothing.
fn refused(answers: &[Started]) -> bool {
    answers.iter().any(|answer| matches!(answer, Started::Mismatch(_)))
}

/// What has to be stored: new ones of batches that are not refused.
pub(in crate::store) fn new<'a>(open: &[Open<'a>], judged: &[Vec<Started>]) -> Vec<(i64, &'a Start)> {
    let accepted = open.iter().zip(judged).filter(|(_, answers)| !refused(answers));
    accepted
        .flat_map(|(open, answers)| {
            let new = open.starts.iter().zip(answers).filter(|(_, answer)| matches!(answer, Started::New(_)));
            new.map(|(start, _)| (open.tenant_no, start))
        })
        .collect()
}
