//! The control plane as a node reaches it: one or more replicas, of which any will do.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use orch8_seal::SecretText;
use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

/// Replicas of the control plane, and the key that this node shows them. Cheap to clone; clones share their choice.
#[derive(Clone)]
pub struct Replicas {
    channels: Arc<[Channel]>,
    bearer: Option<MetadataValue<Ascii>>,
    chosen: Arc<AtomicUsize>,
}

/// One of them, and which.
#[derive(Clone, Debug)]
pub struct Replica {
    pub channel: Channel,
    /// For [`Replicas::move_on`].
    pub number: usize,
}

impl Replicas {
    /// Without a key the node is known by its client certificate.
    ///
    /// `None`: no replica was named, or the key holds what a header cannot.
    pub fn new(channels: Vec<Channel>, key: Option<&SecretText>) -> Option<Self> {
        let bearer = match key {
            Some(key) => {
                let mut bearer = MetadataValue::try_from(format!("Bearer {}", key.reveal())).ok()?;
                bearer.set_sensitive(true);
                Some(bearer)
            }
            None => None,
        };
        (!channels.is_empty()).then(|| Self { channels: channels.into(), bearer, chosen: Arc::default() })
    }

    /// The replica in use.
    pub fn chosen(&self) -> Replica {
        let number = self.chosen.load(Ordering::Relaxed);
        Replica { channel: self.channels[number % self.channels.len()].clone(), number }
    }

    /// A replica does not answer: the next one, from now on. Whoever says so of one that was left already is late: two
    /// streams that break together move on once.
    pub fn move_on(&self, from: usize) {
        let next = from.wrapping_add(1);
        let _left_already = self.chosen.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A request with the key.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(bearer) = &self.bearer {
            request.metadata_mut().insert("authorization", bearer.clone());
        }
        request
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replicas({})", self.channels.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_streams_that_break_together_find_the_replica_that_is_left() {
        let channel = |port: u16| {
            tonic::transport::Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("an address")
        };
        let channels = (1..=2).map(|port| channel(port).connect_lazy()).collect();
        let replicas = Replicas::new(channels, None).expect("two");
        let (watch, join) = (replicas.chosen(), replicas.chosen());
        replicas.move_on(watch.number);
        replicas.move_on(join.number);
        assert_eq!(replicas.chosen().number, watch.number + 1);
        replicas.move_on(replicas.chosen().number);
        assert_eq!(replicas.chosen().number, watch.number + 2, "and the first again when the second breaks");
    }
}
