//! Certificates and keys out of PEM texts, for both ends of a connection. Read whole before anything is opened: a file
//! that does not fit is told apart from a peer that does not answer.

use std::{fmt, sync::Arc};

use orch8_seal::Digest;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    sign::CertifiedKey,
};
use tonic::transport::{Certificate, ClientTlsConfig};

/// Certificates in one text; a bundle of all public authorities has some 150.
const CERTIFICATES_MAX: usize = 1_000;

/// Why a PEM text cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsProblem {
    #[error("holds no certificate (-----BEGIN CERTIFICATE-----)")]
    NoCertificate,
    #[error("holds a certificate that cannot be read")]
    BadCertificate,
    #[error("holds no private key (-----BEGIN PRIVATE KEY-----)")]
    NoKey,
    #[error(
        "holds a private key of a kind that is not supported; use ECDSA P-256 or P-384, Ed25519, or RSA of at least 2048 bits"
    )]
    BadKey,
    #[error("does not belong to the private key")]
    Mismatch,
}

/// A certificate with its chain, and its private key.
#[derive(Clone)]
pub struct Identity {
    chain_pem: Vec<u8>,
    key_pem: Vec<u8>,
    certified: Arc<CertifiedKey>,
}

impl Identity {
    /// Reads both. The error's first half tells whose fault it is.
    pub fn read(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, (Half, TlsProblem)> {
        let chain = certificates(chain_pem).map_err(|why| (Half::Certificate, why))?;
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| (Half::Key, TlsProblem::NoKey))?;
        let provider = Arc::clone(ServerConfig::builder().crypto_provider());
        let key = provider.key_provider.load_private_key(key).map_err(|_| (Half::Key, TlsProblem::BadKey))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // Unknown: this kind of key cannot be asked; the handshake will tell.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => return Err((Half::Certificate, TlsProblem::Mismatch)),
            Err(_) => return Err((Half::Certificate, TlsProblem::BadCertificate)),
        }
        Ok(Self { chain_pem: chain_pem.to_vec(), key_pem: key_pem.to_vec(), certified: Arc::new(certified) })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// Which of the two texts of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Certificate,
    Key,
}

/// Authorities that somebody trusts.
#[derive(Clone)]
pub struct Authorities {
    pem: Vec<u8>,
    roots: Arc<RootCertStore>,
}

impl Authorities {
    /// Reads one or more certificates of authorities.
    pub fn read(pem: &[u8]) -> Result<Self, TlsProblem> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem)? {
            roots.add(certificate).map_err(|_| TlsProblem::BadCertificate)?;
        }
        Ok(Self { pem: pem.to_vec(), roots: Arc::new(roots) })
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({})", self.roots.len())
    }
}

/// What a listener shows, and whose clients it asks to show themselves.
#[derive(Clone, Debug)]
pub struct ServerTls(pub(crate) Arc<ServerConfig>);

impl ServerTls {
    /// With authorities for clients, a client *may* present a certificate of theirs; one of anybody else's ends the
    /// handshake.
    pub fn new(identity: &Identity, clients: Option<&Authorities>) -> Result<Self, TlsProblem> {
        let builder = ServerConfig::builder();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let verifier =
                    WebPkiClientVerifier::builder(Arc::clone(&authorities.roots)).allow_unauthenticated();
                builder.with_client_cert_verifier(verifier.build().map_err(|_| TlsProblem::NoCertificate)?)
            }
        };
        let resolver = rustls::sign::SingleCertAndKey::from(Arc::clone(&identity.certified));
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// Whom a client trusts, and who it is.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    /// `None`: the authorities of the machine.
    pub authorities: Option<Authorities>,
    /// Presented to a server that asks.
    pub identity: Option<Identity>,
}

impl ClientTls {
    pub(crate) fn config(&self) -> ClientTlsConfig {
        let config = match &self.authorities {
            None => ClientTlsConfig::new().with_native_roots(),
            Some(authorities) => {
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&authorities.pem))
            }
        };
        match &self.identity {
            None => config,
            Some(identity) => {
                config.identity(tonic::transport::Identity::from_pem(&identity.chain_pem, &identity.key_pem))
            }
        }
    }
}

/// SHA-256 of the first certificate in a PEM text: what is registered for a client that shows it.
pub fn fingerprint(pem: &[u8]) -> Result<Digest, TlsProblem> {
    let chain = certificates(pem)?;
    Ok(orch8_seal::sha256(chain.first().ok_or(TlsProblem::NoCertificate)?))
}

/// At least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let read = CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX).collect::<Result<Vec<_>, _>>();
    match read {
        Ok(found) if found.is_empty() => Err(TlsProblem::NoCertificate),
        Ok(found) => Ok(found),
        Err(_) => Err(TlsProblem::BadCertificate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_text_that_cannot_be_used_is_told_apart() {
        let ((chain, key), (other, _)) = (made(), made());
        let broken = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        for (chain, key, expected) in [
            (chain.as_str(), key.as_str(), None),
            ("", &key, Some((Half::Certificate, "no certificate"))),
            (&key, &key, Some((Half::Certificate, "no certificate"))),
            (broken, &key, Some((Half::Certificate, "cannot be read"))),
            (&chain, "", Some((Half::Key, "no private key"))),
            (&chain, &chain, Some((Half::Key, "no private key"))),
            (&other, &key, Some((Half::Certificate, "does not belong"))),
        ] {
            let read = Identity::read(chain.as_bytes(), key.as_bytes());
            match (read, expected) {
                (Ok(_), None) => {}
                (Err((half, why)), Some((whose, says))) => {
                    assert_eq!(half, whose, "{why}");
                    assert!(why.to_string().contains(says), "{why}");
                }
                (read, expected) => panic!("{read:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn an_authority_is_at_least_one_certificate() {
        assert_eq!(format!("{:?}", Authorities::read(made().0.as_bytes()).expect("one")), "Authorities(1)");
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"] {
            assert!(Authorities::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
