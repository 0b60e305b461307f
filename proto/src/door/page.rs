//! Pages: sizes and tokens.
//!
//! A token is base64 of a version, a hash over (rpc, tenant, filters, key) and the key of the last row seen. The hash
//! finds garbage, truncation, another tenant's and another query's tokens. It is not keyed: who forges a token chooses
//! a starting point within rows that the statement's own tenant condition gives him anyway.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use orch8_model::{Fault, Reason, TenantId};

const VERSION: u8 = 1;
const HASH_BYTES: usize = 16;
/// A few names of 256 bytes and two numbers, in base64.
const TOKEN_BYTES_MAX: usize = 2_048;

/// Rows of a page: 0 is `default`, above `max` is `max`. Errors: negative.
pub fn page_size(field: &str, asked: i32, default: u32, max: u32) -> Result<u32, Fault> {
    match u32::try_from(asked) {
        Ok(0) => Ok(default.min(max)),
        Ok(size) => Ok(size.min(max)),
        Err(_) => Err(Fault::invalid(field, "must not be negative").with("limit", max)),
    }
}

/// The query that a token belongs to.
#[derive(Clone, Debug)]
pub struct PageQuery(Vec<u8>);

impl PageQuery {
    /// The listing `rpc` of a tenant's rows, or of everybody's.
    pub fn new(rpc: &str, tenant: Option<&TenantId>) -> Self {
        let query = Self(vec![VERSION]).filter(rpc);
        match tenant {
            Some(tenant) => query.filter("tenant").filter(tenant.as_str()),
            None => query.filter("everybody"),
        }
    }

    /// Adds one filter. Order counts; an absent filter is added as empty, so that two filters never trade places.
    pub fn filter(mut self, value: impl AsRef<[u8]>) -> Self {
        frame(&mut self.0, value.as_ref());
        self
    }

    /// The key of the last row of the page before; `None` on the first page. Errors: `BAD_PAGE_TOKEN`.
    pub fn read(&self, field: &str, token: &str) -> Result<Option<Keyset>, Fault> {
        if token.is_empty() {
            return Ok(None);
        }
        self.decode(token).map(Some).ok_or_else(|| bad_token(field))
    }

    /// The token of the page after the row with this key.
    pub fn write(&self, key: Keyset) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(self.hash(&key.0));
        bytes.extend(key.0);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn decode(&self, token: &str) -> Option<Keyset> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (version, rest) = bytes.split_first()?;
        let (hash, key) = rest.split_at_checked(HASH_BYTES)?;
        (*version == VERSION && hash == self.hash(key)).then(|| Keyset(key.to_vec()))
    }

    fn hash(&self, key: &[u8]) -> [u8; HASH_BYTES] {
        let mut bytes = self.0.clone();
        frame(&mut bytes, key);
        let digest = orch8_seal::sha256(&bytes).0;
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&digest[..HASH_BYTES]);
        hash
    }
}

/// The sort key of a row: its columns in order, written with `with_…` and read with `take_…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyset(Vec<u8>);

impl Keyset {
    /// No columns yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes: an id, a text.
    pub fn with_bytes(mut self, value: impl AsRef<[u8]>) -> Self {
        frame(&mut self.0, value.as_ref());
        self
    }

    /// Appends a number.
    pub fn with_int(self, value: i64) -> Self {
        self.with_bytes(value.to_be_bytes())
    }

    /// Takes the next column. Errors: `BAD_PAGE_TOKEN` when there is none.
    pub fn take_bytes(&mut self, field: &str) -> Result<Vec<u8>, Fault> {
        let (value, rest) = unframe(&self.0).ok_or_else(|| bad_token(field))?;
        let (value, rest) = (value.to_vec(), rest.to_vec());
        self.0 = rest;
        Ok(value)
    }

    /// Takes the next column as text. Errors: `BAD_PAGE_TOKEN`.
    pub fn take_text(&mut self, field: &str) -> Result<String, Fault> {
        String::from_utf8(self.take_bytes(field)?).map_err(|_| bad_token(field))
    }

    /// Takes the next column as a number. Errors: `BAD_PAGE_TOKEN`.
    pub fn take_int(&mut self, field: &str) -> Result<i64, Fault> {
        self.take_bytes(field)?.try_into().map(i64::from_be_bytes).map_err(|_| bad_token(field))
    }
}

fn bad_token(field: &str) -> Fault {
    Fault::field(Reason::BadPageToken, field, "is not a token of this query")
}

/// u32 big-endian length, then the bytes: two splits of the same bytes never agree.
fn frame(into: &mut Vec<u8>, value: &[u8]) {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    into.extend(length.to_be_bytes());
    into.extend(value);
}

fn unframe(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).expect("a name")
    }

    #[test]
    fn a_size_is_defaulted_clamped_or_refused() {
        for (asked, expected) in [
            (0, Some(50)),
            (1, Some(1)),
            (500, Some(500)),
            (501, Some(500)),
            (i32::MAX, Some(500)),
            (-1, None),
        ] {
            assert_eq!(page_size("page_size", asked, 50, 500).ok(), expected, "{asked}");
        }
    }

    #[test]
    fn a_token_belongs_to_its_tenant_and_query() {
        let acme = tenant("acme");
        let query = PageQuery::new("ListInstances", Some(&acme)).filter("failed").filter("");
        let token = query.write(Keyset::new().with_int(-5).with_bytes("row"));
        let mut key = query.read("page_token", &token).expect("ours").expect("present");
        assert_eq!(key.take_int("page_token"), Ok(-5));
        assert_eq!(key.take_text("page_token"), Ok("row".to_owned()));
        assert!(key.take_bytes("page_token").is_err());

        let globex = tenant("globex");
        for other in [
            PageQuery::new("ListInstances", Some(&globex)).filter("failed").filter(""),
            PageQuery::new("ListInstances", Some(&acme)).filter("").filter("failed"),
            PageQuery::new("ListInstances", Some(&acme)).filter("failed"),
            PageQuery::new("ListSequences", Some(&acme)).filter("failed").filter(""),
            PageQuery::new("ListInstances", None).filter("failed").filter(""),
        ] {
            assert_eq!(other.read("page_token", &token).expect_err("foreign").reason, Reason::BadPageToken);
        }
        assert_eq!(query.read("page_token", ""), Ok(None));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_door(token in "[A-Za-z0-9_=.\\-]{1,80}|.{1,80}") {
            let query = PageQuery::new("ListTenants", None);
            prop_assert_eq!(query.read("page_token", &token).expect_err("garbage").reason, Reason::BadPageToken);
        }

        #[test]
        fn a_truncated_or_changed_token_is_refused(name in "[a-z]{1,40}", at: prop::sample::Index, bit in 0_u8..6) {
            let query = PageQuery::new("ListTenants", None);
            let token = query.write(Keyset::new().with_bytes(&name));
            let at = at.index(token.len());
            prop_assume!(at > 0);
            prop_assert!(query.read("page_token", &token[..at]).is_err());

            let mut bytes = URL_SAFE_NO_PAD.decode(&token).expect("base64");
            let place = at % bytes.len();
            bytes[place] ^= 1 << bit;
            prop_assert!(query.read("page_token", &URL_SAFE_NO_PAD.encode(bytes)).is_err());
        }
    }
}
