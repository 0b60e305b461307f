//! Where a server is, and whether a key may travel there.

use std::{fmt, net::IpAddr};

use http::{Uri, uri::Scheme};

/// Addresses in one list; more than a client would try before its caller gives up.
pub const ADDRESSES_MAX: usize = 16;
/// Longest address, in bytes.
const ADDRESS_BYTES_MAX: usize = 512;

/// `http://host:port` or `https://host:port`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Uri);

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressProblem {
    #[error("begins neither with http:// nor with https://")]
    Scheme,
    #[error("is not of the form https://host:port")]
    Form,
    #[error("has more than {ADDRESS_BYTES_MAX} bytes")]
    TooLong,
    #[error("names no address")]
    None,
    #[error("names more than {ADDRESSES_MAX} addresses")]
    TooMany,
}

impl Address {
    /// Reads one. A path, a user or a query is not part of an address.
    pub fn parse(text: &str) -> Result<Self, AddressProblem> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressProblem::TooLong);
        }
        if !text.starts_with("http://") && !text.starts_with("https://") {
            return Err(AddressProblem::Scheme);
        }
        let uri: Uri = text.parse().map_err(|_| AddressProblem::Form)?;
        let whole = uri.authority().is_some_and(|a| !a.as_str().contains('@') && !a.host().is_empty());
        // `http` reads a port that is no port, and `host:` without one, and tells nobody.
        let port = uri.authority().is_some_and(|a| {
            let rest = a.as_str().strip_prefix(a.host()).unwrap_or_default();
            rest.is_empty() || a.port_u16().is_some_and(|port| port > 0)
        });
        if whole && port && matches!(uri.path(), "" | "/") && uri.query().is_none() {
            Ok(Self(uri))
        } else {
            Err(AddressProblem::Form)
        }
    }

    /// Reads a list with commas between its addresses. Never empty.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, AddressProblem> {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        let addresses: Vec<Self> =
            texts.take(ADDRESSES_MAX + 1).map(Self::parse).collect::<Result<_, _>>()?;
        match addresses.len() {
            0 => Err(AddressProblem::None),
            1..=ADDRESSES_MAX => Ok(addresses),
            _ => Err(AddressProblem::TooMany),
        }
    }

    /// Whether what is sent there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// Whether nobody but this machine and the server can read what is sent there.
    pub fn may_carry_a_key(&self) -> bool {
        let host = self.0.host().unwrap_or_default().trim_matches(['[', ']']);
        let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.is_encrypted() || loopback
    }

    /// For the transport.
    pub fn uri(&self) -> &Uri {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        write!(f, "{}://{authority}", self.0.scheme_str().unwrap_or_default())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for (text, expected) in [
            ("http://127.0.0.1:7233", Ok("http://127.0.0.1:7233")),
            ("https://orch8.example.org", Ok("https://orch8.example.org")),
            ("https://h:1/", Ok("https://h:1")),
            ("https://[::1]:7", Ok("https://[::1]:7")),
            ("127.0.0.1:7233", Err(AddressProblem::Scheme)),
            ("ftp://h:1", Err(AddressProblem::Scheme)),
            ("", Err(AddressProblem::Scheme)),
            ("http://", Err(AddressProblem::Form)),
            ("http://:80", Err(AddressProblem::Form)),
            ("http://h:x", Err(AddressProblem::Form)),
            ("http://h:", Err(AddressProblem::Form)),
            ("http://h:0", Err(AddressProblem::Form)),
            ("http://h:70000", Err(AddressProblem::Form)),
            ("http://h:1/path", Err(AddressProblem::Form)),
            ("http://h:1?q", Err(AddressProblem::Form)),
            ("http://localhost@evil.example:1", Err(AddressProblem::Form)),
            ("http://a b", Err(AddressProblem::Form)),
        ] {
            let read = Address::parse(text);
            assert_eq!(read.map(|a| a.to_string()), expected.map(str::to_owned), "{text:?}");
        }
        assert_eq!(Address::parse(&format!("http://{}", "h".repeat(600))), Err(AddressProblem::TooLong));
    }

    #[test]
    fn a_list_has_one_to_sixteen() {
        let many = vec!["http://h:1"; ADDRESSES_MAX + 1].join(",");
        for (text, expected) in [
            ("https://a,https://b", Ok(2)),
            (" https://a , ", Ok(1)),
            ("", Err(AddressProblem::None)),
            (" , ", Err(AddressProblem::None)),
            ("https://a,b", Err(AddressProblem::Scheme)),
            (many.as_str(), Err(AddressProblem::TooMany)),
        ] {
            assert_eq!(Address::parse_list(text).map(|list| list.len()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_key_goes_in_plain_text_to_this_machine_only() {
        for (address, allowed) in [
            ("http://127.0.0.1:7233", true),
            ("http://127.9.9.9:7233", true),
            ("http://[::1]:7233", true),
            ("http://localhost:7233", true),
            ("http://localhost", true),
            ("https://example.org", true),
            ("http://example.org:80", false),
            ("http://localhost.example.org:80", false),
            ("http://127.0.0.1.example.org", false),
            ("http://10.0.0.1:1", false),
            ("http://0.0.0.0:1", false),
        ] {
            assert_eq!(Address::parse(address).expect(address).may_carry_a_key(), allowed, "{address}");
        }
    }
}
