//! An answer that ends when the credential of its caller does: revoked, changed or expired.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use chrono::Utc;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use orch8_model::Millis;
use tokio::{sync::watch, time::sleep};
use tonic::{Status, body::Body};

use super::{KeyRing, Principal, principal::unauthenticated};
use crate::status;

/// The longest sleep before the clock is read again, which may be set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A body on a leash.
pub(super) struct Leashed {
    /// `None` once it has ended.
    body: Option<Body>,
    ring: KeyRing,
    caller: Principal,
    losses: watch::Receiver<u64>,
    /// As of the last look at the ring; another end is told as a loss.
    expires_at: Option<Millis>,
    /// Made when the answer first has to wait; most never do.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Leashed {
    /// `losses`: as they were before the caller was admitted, so that none since goes unseen.
    pub fn new(body: Body, ring: KeyRing, caller: Principal, losses: watch::Receiver<u64>) -> Self {
        let expires_at = ring.expires_at(&caller.key);
        Self { body: Some(body), ring, caller, losses, expires_at, end: None }
    }

    /// A stream that always has something to say has to be asked too.
    fn is_cut(&mut self) -> bool {
        // An error: nobody can change the ring any more.
        if self.losses.has_changed().unwrap_or(false) {
            self.losses.mark_unchanged();
            self.expires_at = self.ring.expires_at(&self.caller.key);
            return !self.ring.still_admits(&self.caller, now());
        }
        self.expires_at.is_some_and(|at| at <= now())
    }

    fn cut(&mut self) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.body = None;
        self.end = None;
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(
            status::of(unauthenticated()).add_header(&mut trailers).map(|()| Frame::trailers(trailers)),
        ))
    }
}

/// Ready when the ring does not admit the caller any more.
async fn ended(ring: KeyRing, caller: Principal) {
    let mut losses = ring.losses();
    while ring.still_admits(&caller, now()) {
        let left =
            ring.expires_at(&caller.key).map(|at| Duration::from_millis(at.since(now()).unsigned_abs()));
        let wait = left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
        tokio::select! {
            changed = losses.changed() => if changed.is_err() { return std::future::pending().await },
            () = sleep(wait) => {}
        }
    }
}

fn now() -> Millis {
    Millis::from(Utc::now())
}

impl http_body::Body for Leashed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.body.is_some() && this.is_cut() {
            return this.cut();
        }
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let end = this.end.get_or_insert_with(|| Box::pin(ended(this.ring.clone(), this.caller.clone())));
        ready!(end.as_mut().poll(cx));
        this.cut()
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use orch8_model::Role;

    use super::*;
    use crate::identity::Grant;

    /// Longer than anything here takes.
    const SOON: Duration = Duration::from_secs(5);

    /// Says the same for ever, or nothing at all.
    struct Endless(bool);

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            if self.0 { Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x"))))) } else { Poll::Pending }
        }
    }

    fn grant(expires_at: Option<Millis>, revoked: bool) -> Grant {
        Grant { tenant: None, roles: [Role::Worker].into_iter().collect(), expires_at, revoked }
    }

    async fn last_word(mut body: Leashed) -> Status {
        loop {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            match frame.expect("a last word").expect("a frame").into_trailers() {
                Ok(trailers) => return status::read(&trailers).expect("a status"),
                // Gives the others of this test a turn.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    #[tokio::test]
    async fn a_stream_that_waits_and_one_that_never_does_end_with_their_key() {
        let key = orch8_seal::sha256(b"k");
        let in_a_moment = Millis::from(Utc::now()).plus(300);
        for (chatty, expires_at, revoke) in [
            (false, None, true),
            (true, None, true),
            (false, Some(in_a_moment), false),
            (true, Some(in_a_moment), false),
        ] {
            let ring = KeyRing::new();
            ring.update([
                (key, grant(expires_at, false)),
                (orch8_seal::sha256(b"other"), grant(None, false)),
            ]);
            // The loop's earlier rounds may have taken the moment up.
            let Some(caller) = ring.principal(&key, Millis(0)) else { panic!("known") };
            let body = Leashed::new(Body::new(Endless(chatty)), ring.clone(), caller, ring.losses());
            let last = tokio::spawn(last_word(body));
            ring.update([(orch8_seal::sha256(b"other"), grant(None, true))]);
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(expires_at.is_some() || !last.is_finished(), "another's end is not ours");
            if revoke {
                ring.update([(key, grant(expires_at, true))]);
            }
            let status = tokio::time::timeout(SOON, last).await.expect("an end").expect("no panic");
            assert_eq!(status.code(), tonic::Code::Unauthenticated);
        }
    }
}
