//! SHA-256, and the hash of a JSON value's canonical text.

use std::fmt;

use serde_json::Value;

/// 32 bytes of SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Lower hex, 64 digits.
    pub fn hex(&self) -> String {
        self.to_string()
    }

    /// Reads 32 stored bytes back.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// First 8 bytes, big-endian.
    pub fn head(&self) -> u64 {
        let mut head = [0; 8];
        head.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(head)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> Digest {
    Framed::new().raw(bytes).finish()
}

/// SHA-256 of the canonical text: `1` and `1.0` differ, the order of keys does not matter.
pub fn content_hash(value: &Value) -> Digest {
    sha256(orch8_model::json::canonical(value).as_bytes())
}

/// A hash being fed, with length framing so that two splits of the same bytes never agree.
pub(crate) struct Framed(ring::digest::Context);

impl Framed {
    pub fn new() -> Self {
        Self(ring::digest::Context::new(&ring::digest::SHA256))
    }

    /// A hash that begins with `domain` and a NUL.
    pub fn domain(domain: &str) -> Self {
        Self::new().raw(domain.as_bytes()).raw(&[0])
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.update(bytes);
        self
    }

    /// u64 big-endian length, then the bytes.
    pub fn framed(self, bytes: &[u8]) -> Self {
        self.raw(&(bytes.len() as u64).to_be_bytes()).raw(bytes)
    }

    pub fn u32(self, value: u32) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn finish(self) -> Digest {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        Digest(out)
    }
}
