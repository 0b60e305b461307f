//! JSON payloads: checked once here, and kept as the bytes that came.

use bytes::Bytes;
use orch8_model::{Fault, Reason};
use serde_json::Value;

use crate::v1::Payload;

/// The one content type; the empty one means it.
pub const JSON: &str = "application/json";

/// JSON that kept all rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Json {
    /// What it says.
    pub value: Value,
    /// As it came, byte for byte.
    pub text: Bytes,
}

/// A payload of at most `bytes_max` bytes. Errors: another content type, over the limit, not JSON under the house's
/// rules; the field then ends in the JSON pointer of the place, as in `document/blocks/0/id`.
pub fn json(field: &str, payload: Option<Payload>, bytes_max: usize) -> Result<Option<Json>, Fault> {
    let Some(Payload { data, content_type }) = payload else { return Ok(None) };
    if !content_type.is_empty() && content_type != JSON {
        return Err(Fault::invalid(format!("{field}.content_type"), format_args!("must be {JSON} or empty")));
    }
    if data.len() > bytes_max {
        return Err(Fault::too_large(field, data.len(), bytes_max, "bytes"));
    }
    match orch8_model::json::parse(&data) {
        Ok(value) => Ok(Some(Json { value, text: data })),
        Err(problem) => {
            let place = format!("{field}{}", problem.pointer);
            Err(Fault::field(problem.reason, place, problem.message).with("offset", problem.offset))
        }
    }
}

impl Json {
    /// The same JSON, which must be an object. Errors: another kind.
    pub fn object(self, field: &str) -> Result<Self, Fault> {
        if self.value.is_object() {
            Ok(self)
        } else {
            Err(Fault::field(Reason::InvalidField, field, "must be a JSON object"))
        }
    }
}

/// A value as a payload.
pub fn wire_json(value: &Value) -> Payload {
    wire_text(Bytes::from(orch8_model::json::print(value)))
}

/// Stored JSON text as a payload.
pub fn wire_text(text: Bytes) -> Payload {
    Payload { data: text, content_type: JSON.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(data: &'static [u8], content_type: &str) -> Option<Payload> {
        Some(Payload { data: Bytes::from_static(data), content_type: content_type.to_owned() })
    }

    #[test]
    fn bytes_are_kept_as_they_came() {
        let text: &[u8] = b"{ \"n\" : 9007199254740993 }";
        let json = json("data", payload(text, ""), 64).expect("json").expect("present");
        assert_eq!(json.text, text);
        assert_eq!(json.value["n"], 9_007_199_254_740_993_u64);
        assert_eq!(super::json("data", None, 64), Ok(None));
    }

    #[test]
    fn what_is_not_ours_is_refused_by_field() {
        for (given, field, reason) in [
            (payload(b"{}", "text/plain"), "data.content_type", Reason::InvalidField),
            (payload(b"[1,2,3]", JSON), "data", Reason::TooLarge),
            (payload(b"", JSON), "data", Reason::InvalidJson),
            (payload(b"\xff\xfe", JSON), "data", Reason::InvalidJson),
            (payload(b"{]", ""), "data", Reason::InvalidJson),
        ] {
            let fault = json("data", given, 6).expect_err("refused");
            assert_eq!(fault.reason, reason);
            assert!(fault.fields[0].field.starts_with(field), "{}", fault.fields[0].field);
        }
    }

    #[test]
    fn only_an_object_is_an_object() {
        let list = json("data", payload(b"[]", ""), 6).expect("json").expect("present");
        assert_eq!(list.object("data").expect_err("a list").fields[0].field, "data");
    }
}
