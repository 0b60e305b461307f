use super::*;
use crate::program::{Handler, Kind};

#[test]
fn what_a_later_version_runs_is_refused_here_with_a_remedy() {
    let step = |field: &str| one("step", json!({"handler": "charge", field: {"handler": "x"}}));
    let mut documents = vec![
        (one("race", json!({"branches": [[noop("x")]]})), "/blocks/0/type".to_owned()),
        (one("sub_sequence", json!({"sequence_name": "x"})), "/blocks/0/type".to_owned()),
        (one("a_b_split", json!({})), "/blocks/0/type".to_owned()),
        (one("ab_split", json!({})), "/blocks/0/type".to_owned()),
        (one("cancellation_scope", json!({"blocks": [noop("x")]})), "/blocks/0/type".to_owned()),
        (one("saga", json!({"steps": []})), "/blocks/0/type".to_owned()),
    ];
    for field in [
        "send_window",
        "rate_limit_key",
        "queue_name",
        "fallback_handler",
        "cache_key",
        "output_schema",
        "context_access",
        "compensation",
        "on_deadline_breach",
    ] {
        documents.push((step(field), format!("/blocks/0/{field}")));
    }
    for field in ["interceptors", "input_schema", "sla", "on_failure", "on_cancel"] {
        let mut document = sequence(json!([noop("a")]));
        document[field] = json!({});
        documents.push((document, format!("/{field}")));
    }
    for (document, path) in documents {
        refused(&document, "NOT_IN_THIS_VERSION", &path, "is not in this version: ");
    }
}

#[test]
fn a_built_in_of_a_later_version_never_becomes_a_worker_step() {
    for handler in [
        "set_state",
        "get_state",
        "delete_state",
        "merge_state",
        "emit_event",
        "send_signal",
        "query_instance",
        "self_modify",
        "human_review",
        "wait_for_event",
        "http_request",
        "llm_call",
        "grpc://pricing",
        "GRPC://pricing",
    ] {
        let document = one("step", json!({"handler": handler}));
        refused(&document, "NOT_IN_THIS_VERSION", "/blocks/0/handler", handler);
        let gate = json!({"timeout": 1, "escalation_handler": handler});
        let document = one("step", json!({"handler": "noop", "wait_for_input": gate}));
        refused(&document, "NOT_IN_THIS_VERSION", "/blocks/0/wait_for_input/escalation_handler", handler);
    }
}

#[test]
fn c13_a_handler_no_version_runs_publishes_with_a_warning_and_fails_when_reached() {
    for handler in [
        "agent",
        "tool_call",
        "mcp_call",
        "embed",
        "memory_store",
        "memory_search",
        "memory_delete",
        "blob_put",
        "blob_get",
        "wasm://module",
        "ap://agent",
    ] {
        let document = one("step", json!({"handler": handler}));
        warned(&document, "HANDLER_NOT_IN_THIS_VERSION", "/blocks/0/handler", handler);
        let program = published(&document).program;
        let Kind::Step(step) = &program.blocks[0].kind else { panic!() };
        assert!(matches!(&step.handler, Handler::Unsupported(name) if &**name == handler));
    }
}

#[test]
fn a_credential_reference_is_refused_wherever_it_stands_in_params() {
    for (params, path) in [
        (json!("credentials://a/b"), "/blocks/0/params"),
        (json!({"auth": [{"key/1": "credentials://{{data.id}}"}]}), "/blocks/0/params/auth/0/key~11"),
    ] {
        let document = one("step", json!({"handler": "charge", "params": params}));
        refused(&document, "NOT_IN_THIS_VERSION", path, "credentials://");
    }
    // Only as the beginning of a text: elsewhere it is text like any other.
    clean(&one("step", json!({"handler": "charge", "params": {"doc": "write credentials:// there"}})));
}
