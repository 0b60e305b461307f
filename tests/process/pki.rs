//! An authority and what it signs, in a folder of the test's own.

use std::{fs, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

pub struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Paths of a certificate and its key.
pub struct Files {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("writes");
        Self { folder, issuer }
    }

    /// The authority's own certificate.
    pub fn ca(&self) -> String {
        text(self.folder.path().join("ca.pem"))
    }

    pub fn issue(&self, name: &str) -> Files {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("params");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let place = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        fs::write(place("crt"), certificate.pem()).expect("writes");
        fs::write(place("key"), key.serialize_pem()).expect("writes");
        Files { certificate: text(place("crt")), key: text(place("key")) }
    }
}

fn text(path: PathBuf) -> String {
    path.to_str().expect("UTF-8").to_owned()
}
