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
    pub fn channel(&self) -> Channel {
        let chosen = self.chosen.load(Ordering::Relaxed) % self.channels.len();
        self.channels[chosen].clone()
    }

    /// The replica in use does not answer: the next one, from now on.
    pub fn move_on(&self) {
        self.chosen.fetch_add(1, Ordering::Relaxed);
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
