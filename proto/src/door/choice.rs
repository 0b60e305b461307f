//! Enums, repeated fields, and fields that must be there.

use orch8_model::Fault;

/// An enum by its number; `None` is `…_UNSPECIFIED`. Errors: a number this build does not know.
pub fn choice<E: TryFrom<i32>>(field: &str, number: i32) -> Result<Option<E>, Fault> {
    if number == 0 {
        return Ok(None);
    }
    match E::try_from(number) {
        Ok(chosen) => Ok(Some(chosen)),
        Err(_) => Err(Fault::invalid(field, format_args!("has the unknown value {number}"))),
    }
}

/// A repeated field of at most `max` items.
pub fn items<T>(field: &str, items: Vec<T>, max: usize) -> Result<Vec<T>, Fault> {
    if items.len() > max { Err(Fault::too_large(field, items.len(), max, "items")) } else { Ok(items) }
}

/// A field that must be there.
pub fn required<T>(field: &str, value: Option<T>) -> Result<T, Fault> {
    value.ok_or_else(|| Fault::invalid(field, "is required"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Role;

    #[test]
    fn an_unknown_number_is_refused_and_zero_is_nothing() {
        assert_eq!(choice::<Role>("role", 0), Ok(None));
        assert_eq!(choice::<Role>("role", 4), Ok(Some(Role::Operator)));
        for number in [-1, 7, i32::MAX, i32::MIN] {
            let fault = choice::<Role>("roles[2]", number).expect_err("unknown");
            assert_eq!(fault.fields[0].field, "roles[2]");
        }
    }

    #[test]
    fn a_list_over_its_limit_names_both_numbers() {
        let fault = items("roles", vec![0; 17], 16).expect_err("too many");
        assert_eq!(fault.metadata, [("size", "17".to_owned()), ("limit", "16".to_owned())]);
        assert_eq!(items("roles", vec![0; 16], 16).map(|v| v.len()), Ok(16));
    }
}
