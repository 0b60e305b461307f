//! The door of a session: `Hello` becomes a [`Greeting`], or a fault that names the field and its limit.

use std::collections::HashSet;

use orch8_model::{Fault, HandlerName, Reason, Shard, TenantId, WorkerId, limits::NAME_BYTES_MAX};
use orch8_proto::{door, v1};

use super::SessionConfig;

/// Longest instance nonce, in bytes: a UUID or a hash in hex fits.
const NONCE_BYTES_MAX: usize = 64;
/// Longest resume token, in bytes. Ours are UUIDs; anything else resumes nothing.
const TOKEN_BYTES_MAX: usize = 64;

/// A worker that introduced itself properly.
#[derive(Debug)]
pub(super) struct Greeting {
    pub worker: WorkerId,
    pub nonce: String,
    pub version: String,
    pub lanes: Vec<(String, Vec<HandlerName>)>,
    /// What it says it runs and where the owner is, in its order; judged one by one.
    pub running: Vec<(v1::Lease, Shard)>,
    /// Results it has no answer to, in its order; judged one by one.
    pub unacknowledged: Vec<v1::TaskResult>,
    /// Of its last session; empty when it has none.
    pub token: String,
}

impl Greeting {
    /// Errors: a field that is not a name or over its limit, another tenant, a lane or handler twice, no handler.
    pub fn parse(hello: v1::Hello, tenant: &TenantId, config: &SessionConfig) -> Result<Self, Fault> {
        if !hello.tenant_id.is_empty() && hello.tenant_id != tenant.as_str() {
            let says = "is not the tenant of the credential";
            return Err(Fault::field(Reason::TenantMismatch, "hello.tenant_id", says));
        }
        if hello.instance_nonce.is_empty() {
            return Err(Fault::invalid("hello.instance_nonce", "must not be empty"));
        }
        Ok(Self {
            worker: door::name("hello.worker_id", hello.worker_id)?,
            nonce: door::text("hello.instance_nonce", hello.instance_nonce, NONCE_BYTES_MAX)?,
            version: door::text("hello.version", hello.version, NAME_BYTES_MAX)?,
            lanes: lanes(hello.lanes, config.handlers)?,
            running: hello.running.into_iter().map(running).collect(),
            unacknowledged: hello.unacknowledged,
            token: door::text("hello.resume_token", hello.resume_token, TOKEN_BYTES_MAX)?,
        })
    }
}

/// What names no task or no shard is judged to be nothing: an empty lease, shard 0.
fn running(held: v1::HeldTask) -> (v1::Lease, Shard) {
    let shard = held.route.and_then(|route| u16::try_from(route.shard).ok()).unwrap_or_default();
    (held.lease.unwrap_or_default(), Shard(shard))
}

fn lanes(lanes: Vec<v1::Lane>, max: usize) -> Result<Vec<(String, Vec<HandlerName>)>, Fault> {
    let handlers: usize = lanes.iter().map(|lane| lane.handlers.len()).sum();
    if handlers > max {
        return Err(Fault::too_large("hello.lanes.handlers", handlers, max, "handlers"));
    }
    if lanes.is_empty() {
        return Err(Fault::invalid("hello.lanes", "must have at least one lane"));
    }
    let (mut names, mut offered) = (HashSet::new(), HashSet::new());
    let mut parsed = Vec::with_capacity(lanes.len());
    for (at, lane) in lanes.into_iter().enumerate() {
        let field = format!("hello.lanes[{at}]");
        if lane.handlers.is_empty() {
            return Err(Fault::invalid(format!("{field}.handlers"), "must have at least one handler"));
        }
        let name: HandlerName = door::name(&format!("{field}.name"), lane.name)?;
        if !names.insert(name.clone()) {
            return Err(Fault::invalid(format!("{field}.name"), "names a lane a second time"));
        }
        let mut handlers = Vec::with_capacity(lane.handlers.len());
        for (at, handler) in lane.handlers.into_iter().enumerate() {
            let field = format!("{field}.handlers[{at}]");
            let handler: HandlerName = door::name(&field, handler)?;
            if !offered.insert(handler.clone()) {
                return Err(Fault::invalid(field, "names a handler a second time; it belongs to one lane"));
            }
            handlers.push(handler);
        }
        parsed.push((name.as_str().to_owned(), handlers));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str, handlers: &[&str]) -> v1::Lane {
        v1::Lane { name: name.to_owned(), handlers: handlers.iter().map(|h| (*h).to_owned()).collect() }
    }

    fn hello(lanes: Vec<v1::Lane>) -> v1::Hello {
        v1::Hello { worker_id: "w".to_owned(), instance_nonce: "n".to_owned(), lanes, ..v1::Hello::default() }
    }

    #[test]
    fn a_hello_that_breaks_a_rule_is_refused_by_field() {
        let many: Vec<String> = (0..65).map(|n| format!("h{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let good = || hello(vec![lane("a", &["x"])]);
        let cases = [
            (hello(vec![]), "hello.lanes", Reason::InvalidField),
            (hello(vec![lane("a", &[])]), "hello.lanes[0].handlers", Reason::InvalidField),
            (hello(vec![lane("", &["x"])]), "hello.lanes[0].name", Reason::InvalidField),
            (hello(vec![lane("a", &["x"]), lane("a", &["y"])]), "hello.lanes[1].name", Reason::InvalidField),
            (
                hello(vec![lane("a", &["x"]), lane("b", &["y", "x"])]),
                "hello.lanes[1].handlers[1]",
                Reason::InvalidField,
            ),
            (hello(vec![lane("a", &["x\0"])]), "hello.lanes[0].handlers[0]", Reason::InvalidField),
            (hello(vec![lane("a", &many)]), "hello.lanes.handlers", Reason::TooLarge),
            (v1::Hello { worker_id: String::new(), ..good() }, "hello.worker_id", Reason::InvalidField),
            (v1::Hello { worker_id: "w".repeat(257), ..good() }, "hello.worker_id", Reason::TooLarge),
            (
                v1::Hello { instance_nonce: String::new(), ..good() },
                "hello.instance_nonce",
                Reason::InvalidField,
            ),
            (
                v1::Hello { instance_nonce: "n".repeat(65), ..good() },
                "hello.instance_nonce",
                Reason::TooLarge,
            ),
            (
                v1::Hello { tenant_id: "other".to_owned(), ..good() },
                "hello.tenant_id",
                Reason::TenantMismatch,
            ),
        ];
        let tenant = TenantId::parse("acme").expect("a name");
        for (hello, field, reason) in cases {
            let fault = Greeting::parse(hello, &tenant, &SessionConfig::default()).expect_err(field);
            assert_eq!((fault.fields[0].field.as_str(), fault.reason), (field, reason));
        }
        assert!(Greeting::parse(good(), &tenant, &SessionConfig::default()).is_ok());
    }
}
