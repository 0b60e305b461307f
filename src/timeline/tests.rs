//! What people see, literally.

use orch8_proto::v1::{Instance, InstanceState, NodeState, NodeWait, StepError, TimelineNode, WaitKind};
use prost_types::Timestamp;
use serde_json::json;

use super::*;
use crate::json::payload;

const T0: i64 = 1_700_000_000_000;

fn at(ms: i64) -> Option<Timestamp> {
    let ms = T0 + ms;
    Some(Timestamp { seconds: ms / 1_000, nanos: i32::try_from(ms % 1_000 * 1_000_000).expect("fits") })
}

/// Node number, parent, id, type; handler for steps; from, to.
fn node(
    number: u64,
    parent: u64,
    id: &str,
    kind: &str,
    handler: &str,
    times: (i64, Option<i64>),
) -> TimelineNode {
    TimelineNode {
        node: number,
        parent,
        block_id: id.to_owned(),
        block_type: kind.to_owned(),
        handler: handler.to_owned(),
        state: if times.1.is_some() { NodeState::Completed } else { NodeState::Waiting }.into(),
        activated_at: at(times.0),
        completed_at: times.1.and_then(at),
        ..TimelineNode::default()
    }
}

fn run(state: InstanceState, closed: Option<i64>, nodes: Vec<TimelineNode>) -> GetTimelineResponse {
    GetTimelineResponse {
        instance: Some(Instance {
            instance_id: "0190a1b2".to_owned(),
            sequence_name: "flight-refunds".to_owned(),
            sequence_version: 1,
            state: state.into(),
            created_at: at(0),
            closed_at: closed.and_then(at),
            turns: 8,
            ..Instance::default()
        }),
        nodes,
        next_page_token: String::new(),
    }
}

fn shown(timeline: &GetTimelineResponse, now: i64) -> String {
    render(timeline, T0 + now, Paint(false))
}

#[test]
fn a_finished_run_shows_branches_routes_tries_and_times() {
    let mut decide = node(7, 0, "decide", "router", "", (70, Some(101)));
    decide.decision = Some(payload(&json!({ "route": 1 })));
    let mut refund = node(8, 7, "refund_half", "step", "refund", (70, Some(101)));
    refund.attempt = 2;
    let mut destination = node(4, 2, "destination", "step", "airport_lookup", (48, Some(57)));
    destination.branch = 1;
    let timeline = run(
        InstanceState::Completed,
        Some(1_250),
        vec![
            node(1, 0, "wait_out_delay", "step", "sleep", (0, Some(47))),
            node(2, 0, "airports", "parallel", "", (48, Some(60))),
            node(3, 2, "origin", "step", "airport_lookup", (48, Some(56))),
            destination,
            node(6, 0, "classify", "step", "classify", (60, Some(65))),
            decide,
            refund,
        ],
    );
    assert_eq!(
        shown(&timeline, 9_999),
        "\
✓ flight-refunds v1 · completed · 1.2 s · 8 turns
  0190a1b2
├─ ✓ wait_out_delay  sleep           47 ms
├─ ✓ airports        parallel        12 ms
│  ├─ ✓ origin       airport_lookup   8 ms
│  └─ ✓ destination  airport_lookup   9 ms
├─ ✓ classify        classify         5 ms
└─ ✓ decide          router          31 ms  → route 1
   └─ ✓ refund_half  refund          31 ms  3 tries
"
    );
}

#[test]
fn a_waiting_run_says_since_when_for_what_and_what_to_do() {
    let mut charge = node(1, 0, "charge", "step", "chrage", (0, None));
    charge.wait = Some(NodeWait {
        kind: WaitKind::Worker.into(),
        handler: "chrage".into(),
        note: "no live worker offers `chrage`; nearest offered: `charge`".into(),
        ..NodeWait::default()
    });
    let mut nap = node(3, 2, "nap", "step", "sleep", (1_000, None));
    nap.wait = Some(NodeWait { kind: WaitKind::Sleep.into(), until: at(72_000), ..NodeWait::default() });
    let mut ask = node(4, 2, "approve", "step", "pay", (1_000, None));
    ask.branch = 1;
    ask.wait = Some(NodeWait {
        kind: WaitKind::Gate.into(),
        block_id: "approve".into(),
        prompt: "Pay?".into(),
        choices: vec!["yes".into(), "no".into()],
        ..NodeWait::default()
    });
    let mut again = node(5, 2, "mail", "step", "mail", (1_000, None));
    again.branch = 2;
    again.attempt = 1;
    again.wait = Some(NodeWait {
        kind: WaitKind::Backoff.into(),
        until: at(12_500),
        attempt: 2,
        ..NodeWait::default()
    });
    again.error =
        Some(StepError { code: "FAILED".into(), message: "smtp is down".into(), ..StepError::default() });
    let timeline = run(
        InstanceState::Waiting,
        None,
        vec![charge, node(2, 0, "both", "parallel", "", (1_000, None)), nap, ask, again],
    );
    assert_eq!(
        shown(&timeline, 12_000),
        "\
◌ flight-refunds v1 · waiting · 12.0 s · 8 turns
  0190a1b2
├─ ◌ charge      chrage
│    since 12.0 s: no live worker offers `chrage`; nearest offered: `charge`
└─ ◌ both        parallel
   ├─ ◌ nap      sleep
   │    sleeps until 2023-11-14 22:14:32 UTC (in 1 min 00 s)
   ├─ ◌ approve  pay
   │    since 11.0 s: “Pay?” — orch8 signal 0190a1b2 answer approve yes|no
   └─ ◌ mail     mail        2 tries
        try 3 at 2023-11-14 22:13:32 UTC (in 500 ms)
        last try: FAILED: smtp is down
"
    );
}

#[test]
fn an_error_is_told_where_it_arose_and_in_the_headline() {
    let error = StepError {
        code: "CARD".into(),
        message: "declined".into(),
        block_id: "guard".into(),
        leaf_block: "charge".into(),
        ..StepError::default()
    };
    let mut guard = node(1, 0, "guard", "try_catch", "", (0, Some(30)));
    guard.state = NodeState::Failed.into();
    guard.error = Some(error.clone());
    let mut charge = node(2, 1, "charge", "step", "charge", (0, Some(20)));
    charge.state = NodeState::Failed.into();
    charge.error = Some(error.clone());
    let mut tidy = node(3, 1, "tidy", "step", "log", (20, Some(30)));
    tidy.branch = 2;
    let mut skipped = node(4, 0, "ship", "step", "ship", (30, Some(30)));
    skipped.state = NodeState::Skipped.into();
    let mut timeline = run(InstanceState::Failed, Some(30), vec![guard, charge, tidy, skipped]);
    timeline.instance.as_mut().expect("instance").error = Some(error);
    assert_eq!(
        shown(&timeline, 40),
        "\
✗ flight-refunds v1 · failed · 30 ms · 8 turns
  0190a1b2
  CARD in charge: declined
├─ ✗ guard         try_catch  30 ms
│  ├─ ✗ try
│  │  └─ ✗ charge  charge     20 ms
│  │       CARD: declined
│  └─ ✓ finally
│     └─ ✓ tidy    log        10 ms
└─ ↷ ship          ship
"
    );
}

#[test]
fn long_loops_are_folded_and_the_fold_counts() {
    let mut nodes = vec![node(1, 0, "each", "for_each", "", (0, Some(100)))];
    for i in 0..100_u64 {
        let mut item = node(i + 2, 1, "charge", "step", "charge", (0, Some(10)));
        item.iteration = i.to_string();
        if i == 50 {
            item.state = NodeState::Failed.into();
        }
        nodes.push(item);
    }
    assert_eq!(
        shown(&run(InstanceState::Completed, Some(100), nodes), 100),
        "\
✓ flight-refunds v1 · completed · 100 ms · 8 turns
  0190a1b2
└─ ✓ each          for_each  100 ms
   ├─ ✓ charge#0   charge     10 ms
   ├─ ✓ charge#1   charge     10 ms
   ├─ ✓ charge#2   charge     10 ms
   ├─ ⋮ 96 iterations: 95 completed, 1 failed
   └─ ✓ charge#99  charge     10 ms
"
    );
}

#[test]
fn iterations_of_several_blocks_are_grouped_by_their_innermost_index() {
    let mut nodes =
        vec![node(1, 0, "outer", "loop", "", (0, Some(9))), node(2, 1, "inner", "loop", "", (0, Some(9)))];
    nodes[1].iteration = "0".into();
    for (number, id, iteration) in [(3, "a", "0.0"), (4, "b", "0.0"), (5, "a", "0.1"), (6, "b", "0.1")] {
        let mut step = node(number, 2, id, "step", "noop", (0, Some(1)));
        step.iteration = iteration.into();
        nodes.push(step);
    }
    assert_eq!(
        shown(&run(InstanceState::Completed, Some(9), nodes), 9),
        "\
✓ flight-refunds v1 · completed · 9 ms · 8 turns
  0190a1b2
└─ ✓ outer       loop  9 ms
   └─ ✓ inner#0  loop  9 ms
      ├─ ✓ #0
      │  ├─ ✓ a  noop  1 ms
      │  └─ ✓ b  noop  1 ms
      └─ ✓ #1
         ├─ ✓ a  noop  1 ms
         └─ ✓ b  noop  1 ms
"
    );
}

#[test]
fn hostile_trees_neither_hang_nor_overflow() {
    let mut own_parent = node(1, 1, "a", "step", "", (0, None));
    own_parent.state = 99;
    let orphan = node(2, 77, "b\x1b[2J", "step", "", (0, None));
    let later_parent = node(3, 4, "c", "step", "", (0, None));
    let text = shown(&run(InstanceState::Running, None, vec![own_parent, orphan, later_parent]), 0);
    assert!(text.contains("├─ ? a"), "{text}");
    assert!(text.contains("b\\u{1b}[2J"), "{text}");

    let chain: Vec<TimelineNode> =
        (1..=10_000).map(|n| node(n, n - 1, "deep", "scope", "", (0, None))).collect();
    let text = shown(&run(InstanceState::Running, None, chain), 0);
    assert!(text.contains("⋮ deeper"));
    assert!(shown(&GetTimelineResponse::default(), 0).starts_with("? "));
}

#[test]
fn colour_changes_nothing_but_colour() {
    let timeline =
        run(InstanceState::Completed, Some(5), vec![node(1, 0, "a", "step", "noop", (0, Some(5)))]);
    let painted = render(&timeline, T0, Paint(true));
    assert!(painted.contains("\x1b[32m✓\x1b[0m"), "{painted}");
    let mut plain = String::new();
    let mut escaped = false;
    for c in painted.chars() {
        match c {
            '\x1b' => escaped = true,
            'm' if escaped => escaped = false,
            c if !escaped => plain.push(c),
            _ => {}
        }
    }
    assert_eq!(plain, shown(&timeline, 0));
}
