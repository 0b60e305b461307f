use super::*;
use crate::program::{BlockIx, BodyIx, Kind, Program};

/// Every kind of block, and a step three loops deep.
fn sample() -> Value {
    sequence(json!([
        noop("first"),
        block(
            "for_each",
            "items",
            json!({"collection": "items", "body": [
                block("parallel", "fan", json!({"fail_fast": true, "branches": [
                    [noop("left")],
                    [block("loop", "poll", json!({"condition": "true", "body": [
                        block("try_catch", "guard", json!({
                            "try_block": [noop("t")], "catch_block": [noop("c")], "finally_block": [noop("f")],
                        })),
                    ]}))],
                ]})),
            ]})
        ),
        block(
            "router",
            "pick",
            json!({
                "routes": [{"condition": "data.a", "blocks": [noop("r0")]}, {"condition": "data.b", "blocks": [noop("r1")]}],
                "default": [noop("d")],
            })
        ),
    ]))
}

#[test]
fn every_block_knows_its_place() {
    let program = clean(&sample()).program;
    for (id, path, loops, branch, position) in [
        ("first", "first", "", 0, 0),
        ("items", "items", "", 0, 1),
        ("pick", "pick", "", 0, 2),
        ("fan", "items/fan", "items", 0, 0),
        ("left", "items/fan/left", "items", 0, 0),
        ("poll", "items/fan/poll", "items", 1, 0),
        ("guard", "items/fan/poll/guard", "items/poll", 0, 0),
        ("t", "items/fan/poll/guard/t", "items/poll", 0, 0),
        ("c", "items/fan/poll/guard/c", "items/poll", 1, 0),
        ("f", "items/fan/poll/guard/f", "items/poll", 2, 0),
        ("r0", "pick/r0", "", 0, 0),
        ("r1", "pick/r1", "", 1, 0),
        ("d", "pick/d", "", 2, 0),
    ] {
        let block = program.block(program.by_id[id]);
        let loops_of: Vec<_> = block.loops.iter().map(|ix| &*program.block(*ix).id).collect();
        assert_eq!(
            (&*block.id, block.path.join("/").as_str(), loops_of.join("/").as_str()),
            (id, path, loops)
        );
        assert_eq!((program.body(block.body).branch, block.position), (branch, position), "{id}");
    }
}

#[test]
fn the_two_arenas_agree() {
    let program = clean(&sample()).program;
    assert_eq!(program.body(Program::ROOT).owner, None);
    assert_eq!(program.by_id.len(), program.blocks.len());
    assert_eq!(program.ids.len(), program.blocks.len());
    for (b, body) in program.bodies.iter().enumerate() {
        for (position, ix) in body.blocks.iter().enumerate() {
            let block = program.block(*ix);
            assert_eq!((block.body, block.position as usize), (BodyIx(b as u32), position));
        }
    }
    for (i, block) in program.blocks.iter().enumerate() {
        assert_eq!(program.by_id[&block.id], BlockIx(i as u32));
        let inside: Vec<(u32, BodyIx)> = match &block.kind {
            Kind::Step(_) => Vec::new(),
            Kind::Parallel { branches, .. } => (0..).zip(branches.iter().copied()).collect(),
            Kind::Router { routes, default } => {
                (0..).zip(routes.iter().map(|r| r.1).chain(*default)).collect()
            }
            Kind::TryCatch { try_, catch, finally } => {
                (0..).zip([*try_, *catch].into_iter().chain(*finally)).collect()
            }
            Kind::Loop(l) => vec![(0, l.body)],
            Kind::ForEach(f) => vec![(0, f.body)],
        };
        for (branch, ix) in inside {
            let body = program.body(ix);
            assert_eq!((body.owner, body.branch), (Some(BlockIx(i as u32)), branch));
            assert!(
                body.blocks.iter().all(|inner| inner.0 as usize > i),
                "a block stands before those inside it"
            );
        }
    }
    let body_of = |id: &str| program.block(program.by_id[id]).body;
    assert_ne!(body_of("t"), body_of("c"));
}

#[test]
fn c16_branches_may_be_empty_and_six() {
    let program = published(&one("parallel", json!({"branches": [[]]}))).program;
    assert!(
        matches!(&program.blocks[0].kind, Kind::Parallel { branches, fail_fast: false } if branches.len() == 1)
    );
    let branches: Vec<Value> =
        (0..6).map(|i| json!([noop(&format!("x{i}")), noop(&format!("y{i}"))])).collect();
    let program = clean(&one("parallel", json!({"branches": branches}))).program;
    let Kind::Parallel { branches, .. } = &program.blocks[0].kind else { panic!() };
    let ids = |body: &BodyIx| program.body(*body).blocks.iter().map(|ix| program.block(*ix).id.to_string());
    let ids: Vec<Vec<String>> = branches.iter().map(|body| ids(body).collect()).collect();
    assert_eq!(ids, (0..6).map(|i| vec![format!("x{i}"), format!("y{i}")]).collect::<Vec<_>>());
}

#[test]
fn h17_a_parallel_without_branches_is_refused() {
    refused(&one("parallel", json!({"branches": []})), "INVALID_FIELD", "/blocks/0/branches", "1 to 256");
}

#[test]
fn c26_c31_a_router_needs_no_default_and_a_catch_may_be_empty() {
    let program =
        clean(&one("router", json!({"routes": [{"condition": "data.a", "blocks": [noop("x")]}]}))).program;
    assert!(matches!(&program.blocks[0].kind, Kind::Router { routes, default: None } if routes.len() == 1));
    let program = published(&one("try_catch", json!({"try_block": [noop("x")], "catch_block": []}))).program;
    let Kind::TryCatch { catch, finally: None, .. } = &program.blocks[0].kind else { panic!() };
    assert!(program.body(*catch).blocks.is_empty());
}
