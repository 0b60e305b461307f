//! JSON from the command line: checked to be JSON, sent as it was written, so that its digits survive.

use orch8_model::limits::CONTEXT_BYTES_MAX;
use orch8_proto::v1::Payload;
use serde::de::IgnoredAny;

use crate::{error::CliError, sequence::read_bounded};

/// The value of `flag`: JSON, or `@file`, or `@-` for standard input.
pub fn payload(flag: &str, text: &str) -> anyhow::Result<Payload> {
    let bytes = match text.strip_prefix('@') {
        Some(file) => read_bounded(file, CONTEXT_BYTES_MAX)?,
        None => text.as_bytes().to_vec(),
    };
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(&bytes) {
        return Err(CliError::usage(format!("{flag} is not JSON: {error}"))
            .hint("quote it for the shell: --data '{\"name\":\"Ada\"}', or name a file: --data @file.json")
            .into());
    }
    Ok(Payload { data: bytes.into(), content_type: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_sent_as_it_was_written() {
        let text = r#"{"n": 9007199254740993, "f": 1.0}"#;
        assert_eq!(payload("--data", text).expect("is JSON").data, text.as_bytes());
        let file = tempfile::NamedTempFile::new().expect("temp file");
        std::fs::write(file.path(), text).expect("writes");
        let named = payload("--data", &format!("@{}", file.path().display())).expect("reads");
        assert_eq!(named.data, text.as_bytes());
    }

    #[test]
    fn what_is_no_json_is_refused_before_anything_is_sent() {
        for text in ["", "{", "{a:1}", "Ada", "{} {}", "@/nonexistent/file"] {
            assert!(payload("--data", text).is_err(), "{text}");
        }
    }
}
