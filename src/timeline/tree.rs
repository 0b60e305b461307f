//! From nodes in activation order to twigs: branches and phases named, iterations grouped, long loops folded.

use std::collections::{BTreeMap, HashMap};

use orch8_proto::v1::{NodeState, TimelineNode};

use crate::{human, json};

/// Loops of up to this many iterations are shown whole; of longer ones the first and the last.
const ITERATIONS_SHOWN_WHOLE: usize = 5;
/// Iterations shown before the fold.
const FIRST_SHOWN: usize = 3;
/// The language nests 64 deep; each level adds at most a group. Deeper is no tree of ours.
const DEPTH_MAX: usize = 160;
/// Longer ids are cut on the screen.
const NAME_CHARS_MAX: usize = 60;

/// A line and what hangs below it.
#[derive(Debug)]
pub struct Twig<'a> {
    pub label: Label<'a>,
    pub below: Vec<Twig<'a>>,
}

/// What a line stands for.
#[derive(Debug)]
pub enum Label<'a> {
    Node {
        node: &'a TimelineNode,
        name: String,
    },
    /// A branch, a phase or an iteration of several blocks.
    Group {
        name: String,
        state: NodeState,
    },
    /// Iterations left out.
    Folded(String),
}

/// The twigs of the root body.
pub fn grow(nodes: &[TimelineNode]) -> Vec<Twig<'_>> {
    let known: HashMap<u64, ()> = nodes.iter().map(|node| (node.node, ())).collect();
    let mut children: HashMap<u64, Vec<&TimelineNode>> = HashMap::new();
    for node in nodes {
        // A parent is activated before its children; anything else would be a loop or a page cut off before it.
        let parent =
            if node.parent < node.node && known.contains_key(&node.parent) { node.parent } else { 0 };
        children.entry(parent).or_default().push(node);
    }
    let roots = children.get(&0).map(Vec::as_slice).unwrap_or_default();
    roots.iter().map(|node| twig(node, name(node), &children, DEPTH_MAX)).collect()
}

type Children<'a> = HashMap<u64, Vec<&'a TimelineNode>>;

fn twig<'a>(node: &'a TimelineNode, name: String, children: &Children<'a>, depth: usize) -> Twig<'a> {
    let below = match (children.get(&node.node), depth.checked_sub(1)) {
        (None, _) => Vec::new(),
        (Some(_), None) => vec![Twig { label: Label::Folded("⋮ deeper".to_owned()), below: Vec::new() }],
        (Some(inner), Some(depth)) => match node.block_type.as_str() {
            "parallel" | "race" => branches(inner, children, depth),
            "try_catch" => phases(inner, children, depth),
            "loop" | "for_each" => iterations(inner, children, depth),
            _ => inner.iter().map(|node| twig(node, self::name(node), children, depth)).collect(),
        },
    };
    Twig { label: Label::Node { node, name }, below }
}

/// A branch of one block is that block; a longer one gets a line of its own.
fn branches<'a>(inner: &[&'a TimelineNode], children: &Children<'a>, depth: usize) -> Vec<Twig<'a>> {
    by(inner, |node| u64::from(node.branch))
        .into_iter()
        .map(|(branch, nodes)| match nodes.as_slice() {
            [only] => twig(only, name(only), children, depth),
            several => group(format!("branch {branch}"), several, children, depth),
        })
        .collect()
}

fn phases<'a>(inner: &[&'a TimelineNode], children: &Children<'a>, depth: usize) -> Vec<Twig<'a>> {
    by(inner, |node| u64::from(node.branch))
        .into_iter()
        .map(|(phase, nodes)| {
            let name = match phase {
                0 => "try".to_owned(),
                1 => "catch".to_owned(),
                2 => "finally".to_owned(),
                other => format!("phase {other}"),
            };
            group(name, &nodes, children, depth)
        })
        .collect()
}

fn iterations<'a>(inner: &[&'a TimelineNode], children: &Children<'a>, depth: usize) -> Vec<Twig<'a>> {
    let groups: Vec<(u64, Vec<&TimelineNode>)> = by(inner, innermost_index).into_iter().collect();
    let one = |(index, nodes): &(u64, Vec<&'a TimelineNode>)| match nodes.as_slice() {
        [only] => twig(only, format!("{}#{index}", name(only)), children, depth),
        several => group(format!("#{index}"), several, children, depth),
    };
    if groups.len() <= ITERATIONS_SHOWN_WHOLE {
        return groups.iter().map(one).collect();
    }
    let (first, rest) = groups.split_at(FIRST_SHOWN);
    let (folded, last) = rest.split_at(rest.len() - 1);
    let mut twigs: Vec<Twig<'_>> = first.iter().map(one).collect();
    twigs.push(Twig { label: Label::Folded(fold(folded)), below: Vec::new() });
    twigs.extend(last.iter().map(one));
    twigs
}

/// `⋮ 94 iterations: 93 completed, 1 failed`
fn fold(groups: &[(u64, Vec<&TimelineNode>)]) -> String {
    let mut counts: BTreeMap<usize, (NodeState, u64)> = BTreeMap::new();
    for (_, nodes) in groups {
        let state = together(nodes);
        counts.entry(rank(state)).or_insert((state, 0)).1 += 1;
    }
    let parts: Vec<String> = counts
        .values()
        .rev()
        .map(|(state, n)| format!("{} {}", human::count(*n), json::node_state(*state)))
        .collect();
    format!("⋮ {} iterations: {}", human::count(groups.len() as u64), parts.join(", "))
}

fn group<'a>(name: String, nodes: &[&'a TimelineNode], children: &Children<'a>, depth: usize) -> Twig<'a> {
    Twig {
        label: Label::Group { name, state: together(nodes) },
        below: nodes.iter().map(|node| twig(node, self::name(node), children, depth)).collect(),
    }
}

/// The state of several blocks as one: the worst that is open or has happened.
fn together(nodes: &[&TimelineNode]) -> NodeState {
    nodes.iter().map(|node| node.state()).min_by_key(|state| rank(*state)).unwrap_or(NodeState::Completed)
}

/// Failed before open before cancelled before done.
fn rank(state: NodeState) -> usize {
    match state {
        NodeState::Failed => 0,
        NodeState::Running => 1,
        NodeState::Waiting => 2,
        NodeState::Pending => 3,
        NodeState::Cancelled => 4,
        NodeState::Unspecified => 5,
        NodeState::Completed => 6,
        NodeState::Skipped => 7,
    }
}

fn by<'a>(
    nodes: &[&'a TimelineNode],
    key: impl Fn(&TimelineNode) -> u64,
) -> BTreeMap<u64, Vec<&'a TimelineNode>> {
    let mut groups: BTreeMap<u64, Vec<&TimelineNode>> = BTreeMap::new();
    for node in nodes {
        groups.entry(key(node)).or_default().push(node);
    }
    groups
}

/// `2` of `0.2`.
fn innermost_index(node: &TimelineNode) -> u64 {
    node.iteration.rsplit('.').next().and_then(|index| index.parse().ok()).unwrap_or(0)
}

fn name(node: &TimelineNode) -> String {
    human::foreign(&node.block_id, NAME_CHARS_MAX)
}
