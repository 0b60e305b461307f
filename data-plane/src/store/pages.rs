//! How a list is read: which ranges of which indexes, and what becomes of their rows. The same for both databases.

use orch8_engine::Status;
use orch8_model::{InstanceId, Millis, Namespace, SequenceName};

use super::{InstanceFilter, InstanceRow, PageAfter};

/// A list of instances is a merge of a few probes, each on an index that holds little else than what is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// Whatever the status.
    All,
    /// Instances that have not ended and have one of these statuses, each once.
    Open(Vec<Status>),
    Paused,
    Completed,
    Failed,
    Cancelled,
}

/// Which probes answer a list of statuses; none means all.
pub(super) fn probes(statuses: &[Status]) -> Vec<Probe> {
    if statuses.is_empty() {
        return vec![Probe::All];
    }
    let (mut probes, mut open) = (Vec::new(), Vec::new());
    for status in statuses {
        let probe = match status {
            Status::Scheduled | Status::Running | Status::Waiting => {
                if !open.contains(status) {
                    open.push(*status);
                }
                continue;
            }
            Status::Paused => Probe::Paused,
            Status::Completed => Probe::Completed,
            Status::Failed => Probe::Failed,
            Status::Cancelled => Probe::Cancelled,
        };
        if !probes.contains(&probe) {
            probes.push(probe);
        }
    }
    if !open.is_empty() {
        probes.push(Probe::Open(open));
    }
    probes
}

/// What all probes found, newest first, as one page.
pub(super) fn merge(mut found: Vec<InstanceRow>, limit: u32) -> Vec<InstanceRow> {
    found.sort_unstable_by_key(|row| std::cmp::Reverse((row.birth.created_at, row.birth.instance)));
    // Between two probes an instance may have changed its status, and answer both.
    found.dedup_by_key(|row| row.birth.instance);
    found.truncate(limit as usize);
    found
}

/// Where a page begins: strictly older than this. An instant alone is older than every id at that instant.
pub(super) fn page_end(
    filter: &InstanceFilter,
    after: Option<PageAfter>,
) -> Option<(Millis, Option<InstanceId>)> {
    let after = after.map(|PageAfter { created_at, id }| (created_at, Some(id)));
    let before = filter.created_before.map(|at| (at, None));
    after.into_iter().chain(before).min()
}

/// A range of the index of sequences; a list is one after the other, until the page is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// The rest of the name the last page ended in: older versions than this.
    SameName(Namespace, SequenceName, i32),
    /// Names after this one in the same namespace; all of them when there is none.
    Namespace(Namespace, Option<SequenceName>),
    /// Namespaces after this one; all of them when there is none.
    Beyond(Option<Namespace>),
}

/// The ranges of a list, in order. A cursor from another namespace than `only` is only a place in the order.
pub(super) fn ranges(only: Option<&Namespace>, after: Option<(Namespace, SequenceName, i32)>) -> Vec<Range> {
    let after = after.filter(|(last, _, _)| only.is_none_or(|only| only <= last));
    match (after, only) {
        (Some((last, _, _)), Some(only)) if last > *only => Vec::new(),
        (Some((last, name, version)), only) => {
            let same = Range::SameName(last.clone(), name.clone(), version);
            let rest = Range::Namespace(last.clone(), Some(name));
            let beyond = only.is_none().then_some(Range::Beyond(Some(last)));
            [same, rest].into_iter().chain(beyond).collect()
        }
        (None, Some(only)) => vec![Range::Namespace(only.clone(), None)],
        (None, None) => vec![Range::Beyond(None)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_asked_for_once() {
        let twice = [Status::Waiting, Status::Failed, Status::Running, Status::Failed, Status::Waiting];
        let open = Probe::Open(vec![Status::Waiting, Status::Running]);
        assert_eq!(probes(&twice), [Probe::Failed, open]);
        assert_eq!(probes(&[]), [Probe::All]);
    }

    #[test]
    fn the_nearer_end_begins_a_page() {
        let id = InstanceId(uuid::Uuid::from_u128(7));
        let after = |ms| Some(PageAfter { created_at: Millis(ms), id });
        let before = |ms| InstanceFilter { created_before: Some(Millis(ms)), ..InstanceFilter::default() };
        assert_eq!(page_end(&InstanceFilter::default(), None), None);
        assert_eq!(page_end(&before(5), after(4)), Some((Millis(4), Some(id))));
        assert_eq!(page_end(&before(5), after(5)), Some((Millis(5), None)), "no id at that instant");
    }

    #[test]
    fn a_list_goes_on_where_it_ended() {
        let space = |text| Namespace::parse(text).expect("a namespace");
        let name = || SequenceName::parse("n").expect("a name");
        let same =
            |text| vec![Range::SameName(space(text), name(), 3), Range::Namespace(space(text), Some(name()))];
        let beyond = [same("b"), vec![Range::Beyond(Some(space("b")))]].concat();
        for (only, after, expected) in [
            (None, None, vec![Range::Beyond(None)]),
            (Some("b"), None, vec![Range::Namespace(space("b"), None)]),
            (None, Some("b"), beyond),
            (Some("b"), Some("b"), same("b")),
            (Some("b"), Some("a"), vec![Range::Namespace(space("b"), None)]),
            (Some("b"), Some("c"), vec![]),
        ] {
            let after_ = after.map(|text| (space(text), name(), 3));
            assert_eq!(ranges(only.map(space).as_ref(), after_), expected, "{only:?} {after:?}");
        }
    }
}
