//! Names, ids and free text.

use orch8_model::{Fault, NameProblem, Namespace};
use uuid::Uuid;

/// A name. Errors: empty, blank, over its byte limit, control characters.
pub fn name<T>(field: &str, text: impl Into<String>) -> Result<T, Fault>
where
    T: TryFrom<String, Error = NameProblem>,
{
    T::try_from(text.into()).map_err(|problem| match problem {
        NameProblem::TooLong { bytes, max } => Fault::too_large(field, bytes, max, "bytes"),
        NameProblem::Empty
        | NameProblem::Blank
        | NameProblem::Control { .. }
        | NameProblem::Charset { .. } => Fault::invalid(field, problem),
    })
}

/// A name, or `None` when empty.
pub fn optional_name<T>(field: &str, text: impl Into<String>) -> Result<Option<T>, Fault>
where
    T: TryFrom<String, Error = NameProblem>,
{
    let text = text.into();
    if text.is_empty() { Ok(None) } else { name(field, text).map(Some) }
}

/// A namespace; empty is `default`.
pub fn namespace(field: &str, text: impl Into<String>) -> Result<Namespace, Fault> {
    Ok(optional_name(field, text)?.unwrap_or_else(Namespace::default_namespace))
}

/// An id, as in `id("instance_id", &request.instance_id, InstanceId)`. Errors: not a UUID.
pub fn id<T>(field: &str, text: &str, make: fn(Uuid) -> T) -> Result<T, Fault> {
    Uuid::try_parse(text).map(make).map_err(|_| Fault::invalid(field, "must be a UUID"))
}

/// An id, or `None` when empty.
pub fn optional_id<T>(field: &str, text: &str, make: fn(Uuid) -> T) -> Result<Option<T>, Fault> {
    if text.is_empty() { Ok(None) } else { id(field, text, make).map(Some) }
}

/// Words for people, possibly none: at most `max` bytes; of the control characters only line feed and tab, since the
/// text is shown in terminals.
pub fn text(field: &str, text: String, max: usize) -> Result<String, Fault> {
    if text.len() > max {
        return Err(Fault::too_large(field, text.len(), max, "bytes"));
    }
    match text.char_indices().find(|(_, c)| c.is_control() && !matches!(c, '\n' | '\t')) {
        Some((offset, _)) => {
            Err(Fault::invalid(field, format_args!("has a control character at byte {offset}")))
        }
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use orch8_model::{InstanceId, Reason, SequenceName, StoreName, TenantId};

    use super::*;

    #[test]
    fn a_bad_name_is_refused_by_field() {
        for (input, reason) in [
            (String::new(), Reason::InvalidField),
            ("   ".to_owned(), Reason::InvalidField),
            ("a\0b".to_owned(), Reason::InvalidField),
            ("a\nb".to_owned(), Reason::InvalidField),
            ("字".repeat(86), Reason::TooLarge),
        ] {
            let fault = name::<TenantId>("tenant_id", input).expect_err("not a name");
            assert_eq!((fault.reason, fault.fields[0].field.as_str()), (reason, "tenant_id"));
        }
        assert!(name::<TenantId>("tenant_id", "字".repeat(85)).is_ok());
        assert!(name::<StoreName>("store", "postgres://x").is_err());
    }

    #[test]
    fn empty_is_absent_where_it_may_be() {
        assert_eq!(optional_name::<SequenceName>("name", ""), Ok(None));
        assert_eq!(namespace("namespace", ""), Ok(Namespace::default_namespace()));
        assert_eq!(optional_id("instance_id", "", InstanceId), Ok(None));
        assert!(namespace("namespace", " ").is_err());
    }

    #[test]
    fn an_id_is_a_uuid() {
        let text = "00000000-0000-4000-8000-000000000001";
        assert_eq!(id("instance_id", text, InstanceId).map(|i| i.to_string()), Ok(text.to_owned()));
        for input in ["", "1", "00000000-0000-4000-8000-00000000000", "'; DROP TABLE"] {
            assert_eq!(
                id("instance_id", input, InstanceId).expect_err("not an id").fields[0].field,
                "instance_id"
            );
        }
    }

    #[test]
    fn text_for_people_has_a_limit_and_no_escapes() {
        assert!(text("reason", "two\nlines".to_owned(), 64).is_ok());
        assert!(text("reason", "\u{1b}[2J".to_owned(), 64).is_err());
        assert_eq!(text("reason", "x".repeat(65), 64).expect_err("long").reason, Reason::TooLarge);
    }
}
