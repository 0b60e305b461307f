//! Client certificates as credentials: registered, pushed, revoked and looked up like keys.

use orch8_seal::Digest;

/// What stands in the key ring for a client certificate with this SHA-256 (of its DER form): SHA-256 of a fixed prefix
/// with a NUL, and the fingerprint. No text that can travel as a bearer has this hash for a fingerprint somebody
/// registered, since a bearer holds no NUL; so a certificate, which is public, is never a key.
pub fn certificate_key(fingerprint: &Digest) -> Digest {
    let mut framed = b"orch8-client-certificate-v1\0".to_vec();
    framed.extend_from_slice(&fingerprint.0);
    orch8_seal::sha256(&framed)
}
