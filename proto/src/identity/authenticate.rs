//! The tower layer before every service: no key, no handler.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{Either, Ready, ready};
use http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use orch8_model::{Fault, Millis, Reason};
use orch8_seal::{Digest, SecretText};
use tokio::sync::watch;
use tonic::{Status, body::Body};
use tower::{Layer, Service};
use tracing::Span;

use super::{KeyRing, Principal, access, leash::Leashed, principal::unauthenticated};
use crate::{serve::Peer, status};

/// Ours have 67 bytes; more than this is not a key.
const KEY_BYTES_MAX: usize = 512;

/// Reads `authorization: Bearer <key>`, or where there is no such header the certificate that the TLS handshake proved;
/// checks the role table; and hands the request on with a [`Principal`] in its extensions and without the header. The
/// answer ends with `UNAUTHENTICATED` as soon as the credential is not good any more.
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

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Watched<S::Future>, Ready<Result<Self::Response, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut watch = None;
        if !access::is_open(request.uri().path()) {
            let losses = self.keys.losses();
            let now = Millis::from(chrono::Utc::now());
            let certificate = request.extensions().get::<Arc<Peer>>().and_then(|peer| peer.certificate);
            match admit(&self.keys, request.uri().path(), request.headers(), certificate, now) {
                Ok(principal) => {
                    record(&principal);
                    watch = Some((self.keys.clone(), principal.clone(), losses));
                    request.extensions_mut().insert(principal);
                }
                Err(refusal) => return Either::Right(ready(Ok(refusal.into_http()))),
            }
        }
        request.headers_mut().remove(AUTHORIZATION);
        Either::Left(Watched { answer: Box::pin(self.inner.call(request)), watch })
    }
}

/// An answer in the making, to be put on the leash of its caller's credential.
pub struct Watched<F> {
    answer: Pin<Box<F>>,
    watch: Option<(KeyRing, Principal, watch::Receiver<u64>)>,
}

impl<F, E> Future for Watched<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(self.answer.as_mut().poll(cx));
        Poll::Ready(match self.watch.take() {
            Some((ring, caller, losses)) => {
                answer.map(|r| r.map(|body| Body::new(Leashed::new(body, ring, caller, losses))))
            }
            None => answer,
        })
    }
}

/// Credential first, so that nobody learns from us which paths exist; an RPC without a row is closed.
fn admit(
    keys: &KeyRing,
    path: &str,
    headers: &HeaderMap,
    certificate: Option<Digest>,
    now: Millis,
) -> Result<Principal, Status> {
    // Who says something about himself is taken at his word: a bad key is not saved by a good certificate.
    let credential = match headers.contains_key(AUTHORIZATION) {
        true => bearer(headers).map(|secret| secret.digest()),
        false => certificate,
    };
    let principal = credential
        .and_then(|credential| keys.principal(&credential, now))
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
            admit(&ring(), GET, &headers(values), None, Millis(now)).expect_err("refused")
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
        let call = |path| admit(&ring(), path, &headers(&["bearer good"]), None, Millis(0));
        assert_eq!(call(GET).expect("admitted").tenant, TenantId::parse("acme").ok());
        assert_eq!(call("/orch8.v1.TenantService/WhoAmI").map(|_| ()).map_err(|s| s.code()), Ok(()));
        let code = |path| call(path).expect_err("refused").code();
        assert_eq!(code("/orch8.v1.FleetService/Watch"), Code::PermissionDenied);
        assert_eq!(code("/orch8.v1.InstanceService/DropEverything"), Code::Unimplemented);
        assert_eq!(code("//orch8.v1.InstanceService/GetInstance"), Code::Unimplemented);
    }

    #[test]
    fn a_certificate_speaks_where_there_is_no_key_and_is_none() {
        let ring = ring();
        let shown = orch8_seal::sha256(b"DER");
        let credential = crate::identity::certificate_key(&shown);
        let roles = [Role::Client].into_iter().collect();
        ring.update([(credential, Grant { tenant: None, roles, expires_at: None, revoked: false })]);
        let admits = |values: &[&'static str], certificate| {
            admit(&ring, GET, &headers(values), certificate, Millis(0)).map(|caller| caller.key).ok()
        };
        assert_eq!(admits(&[], Some(credential)), Some(credential));
        assert_eq!(admits(&["Bearer good"], Some(credential)), Some(orch8_seal::sha256(b"good")));
        assert_eq!(admits(&["Bearer wrong"], Some(credential)), None, "a wrong key is not saved by it");
        assert_eq!(admits(&["Basic good"], Some(credential)), None);
        assert_eq!(admits(&[], Some(shown)), None, "another certificate");
        assert_eq!(admits(&["Bearer DER"], None), None, "a certificate is public: it is no key");
    }
}
