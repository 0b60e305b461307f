//! Secrets: made here, shown once, never printed by accident.

use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};

/// Bytes nobody can guess. `None` when the operating system has no randomness to give.
pub fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok().map(|()| bytes)
}

/// A secret text. `Debug` and `Display` hide it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a text that came from a request or a file.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// A new API key: `o8_` and 64 hex digits.
    pub fn generate() -> Option<Self> {
        let bytes: [u8; 32] = random_bytes()?;
        Some(Self(format!("o8_{}", crate::Digest(bytes).hex())))
    }

    /// The text itself; for the wire and for 0600 files only.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is stored instead of it.
    pub fn digest(&self) -> crate::Digest {
        crate::sha256(self.0.as_bytes())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}
