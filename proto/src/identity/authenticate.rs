//! The tower layer before every service: no key, no handler.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use orch8_model::{Fault, Millis, Reason};
use orch8_seal::SecretText;
use tonic::Status;
use tower::{Layer, Service};
use tracing::Span;

use super::{KeyRing, Principal, access, principal::unauthenticated};
use crate::status;

/// Ours have 67 bytes; more than this is not a key.
const KEY_BYTES_MAX: usize = 512;

/// Reads `authorization: Bearer <key>`, checks the role table, and hands the request on with a [`Principal`] in its
/// extensions and without the header.
#[derive(Clone, Debug)]
pub struct Authenticate {
    keys: KeyRing,
}

impl Authenticate {
    /// A guard who knows these keys.
    pub fn new(keys: KeyRing) -> Self {
        Self { keys }
    }
}

impl<S> Layer<S> for Authenticate {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { keys: self.keys.clone(), inner }
    }
}

/// A service behind [`Authenticate`].
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    keys: KeyRing,
    inner: S,
}

impl<S, Body, Answer> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Answer>>,
    Answer: Default,
{
    type Response = Response<Answer>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Self::Response, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if !access::is_open(request.uri().path()) {
            let now = Millis::from(chrono::Utc::now());
            match admit(&self.keys, request.uri().path(), request.headers(), now) {
                Ok(principal) => {
                    record(&principal);
                    request.extensions_mut().insert(principal);
                }
                Err(refusal) => return Either::Right(ready(Ok(refusal.into_http()))),
            }
        }
        request.headers_mut().remove(AUTHORIZATION);
        Either::Left(self.inner.call(request))
    }
}

/// Credential first, so that nobody learns from us which paths exist; an RPC without a row is closed.
fn admit(keys: &KeyRing, path: &str, headers: &HeaderMap, now: Millis) -> Result<Principal, Status> {
    let principal = bearer(headers)
        .and_then(|secret| keys.principal(&secret.digest(), now))
        .ok_or_else(|| status::of(unauthenticated()))?;
    let (_, access) = access::row(path).ok_or_else(status::unknown_method)?;
    if access.admits(principal.roles) {
        return Ok(principal);
    }
    Err(status::of(Fault::new(Reason::RoleMissing, "the key has no role that allows this call")))
}

/// The one key of a request; two headers are none.
fn bearer(headers: &HeaderMap) -> Option<SecretText> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    let fits = scheme.eq_ignore_ascii_case("bearer") && !key.is_empty() && key.len() <= KEY_BYTES_MAX;
    fits.then(|| SecretText::new(key.to_owned()))
}

fn record(principal: &Principal) {
    let span = Span::current();
    if let Some(tenant) = &principal.tenant {
        span.record("tenant.id", tenant.as_str());
    }
    span.record("key.id", principal.key_id());
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use orch8_model::{Role, TenantId};
    use tonic::Code;

    use super::*;
    use crate::identity::Grant;

    const GET: &str = "/orch8.v1.InstanceService/GetInstance";

    fn ring() -> KeyRing {
        let ring = KeyRing::new();
        ring.update([(
            orch8_seal::sha256(b"good"),
            Grant {
                tenant: TenantId::parse("acme").ok(),
                roles: [Role::Client].into_iter().collect(),
                expires_at: Some(Millis(100)),
                revoked: false,
            },
        )]);
        ring
    }

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|v| (AUTHORIZATION, HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn every_bad_credential_is_refused_with_the_same_bytes() {
        let long: &'static str = Box::leak(format!("Bearer {}", "x".repeat(600)).into_boxed_str());
        let refuse = |values: &[&'static str], now| {
            admit(&ring(), GET, &headers(values), Millis(now)).expect_err("refused")
        };
        let missing = refuse(&[], 0);
        assert_eq!(missing.code(), Code::Unauthenticated);
        for (values, now) in [
            (&["Bearer wrong"][..], 0),
            (&["Bearer good"], 100),
            (&["Bearer good "], 0),
            (&["good"], 0),
            (&["Bearer "], 0),
            (&["Basic good"], 0),
            (&["Bearer good", "Bearer good"], 0),
            (&[long], 0),
        ] {
            let refusal = refuse(values, now);
            assert_eq!(
                (refusal.message(), refusal.details()),
                (missing.message(), missing.details()),
                "{values:?}"
            );
        }
    }

    #[test]
    fn a_good_key_goes_where_its_roles_allow_and_nowhere_else() {
        let call = |path| admit(&ring(), path, &headers(&["bearer good"]), Millis(0));
        assert_eq!(call(GET).expect("admitted").tenant, TenantId::parse("acme").ok());
        assert_eq!(call("/orch8.v1.TenantService/WhoAmI").map(|_| ()).map_err(|s| s.code()), Ok(()));
        let code = |path| call(path).expect_err("refused").code();
        assert_eq!(code("/orch8.v1.FleetService/Watch"), Code::PermissionDenied);
        assert_eq!(code("/orch8.v1.InstanceService/DropEverything"), Code::Unimplemented);
        assert_eq!(code("//orch8.v1.InstanceService/GetInstance"), Code::Unimplemented);
    }
}
