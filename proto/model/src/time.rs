//! Instants and durations in whole milliseconds, with checked arithmetic: request values never overflow a clock.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::DURATION_MS_MAX;

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// 0001-01-01T00:00:00Z, the earliest instant.
    pub const MIN: Millis = Millis(-62_135_596_800_000);
    /// 9999-12-31T23:59:59.999Z, the latest instant.
    pub const MAX: Millis = Millis(253_402_300_799_999);

    /// This instant plus `ms`, held within [`Self::MIN`] and [`Self::MAX`].
    pub fn plus(self, ms: i64) -> Millis {
        Millis(self.0.saturating_add(ms).clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Milliseconds from `earlier` to this instant; never negative.
    pub fn since(self, earlier: Millis) -> i64 {
        self.0.saturating_sub(earlier.0).max(0)
    }

    /// The instant as chrono sees it.
    pub fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0.clamp(Self::MIN.0, Self::MAX.0)).unwrap_or_default()
    }
}

impl From<DateTime<Utc>> for Millis {
    fn from(at: DateTime<Utc>) -> Self {
        Millis(at.timestamp_millis()).plus(0)
    }
}

impl fmt::Display for Millis {
    /// RFC 3339 with milliseconds, for example `2027-03-14T07:30:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_datetime().format("%Y-%m-%dT%H:%M:%S%.3fZ"))
    }
}

/// Why a value is not a duration or an instant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeProblem {
    /// Neither an integer (milliseconds) nor a number with a fraction (seconds).
    #[error("must be a number: an integer is milliseconds, a number with '.' is seconds")]
    NotANumber,
    /// Below zero.
    #[error("must not be negative")]
    Negative,
    /// Over ten years.
    #[error("is longer than 10 years (at most {DURATION_MS_MAX} ms)")]
    TooLong,
    /// Not RFC 3339, or outside the years 1 to 9999.
    #[error("must be an RFC 3339 instant between 0001-01-01 and 9999-12-31")]
    Instant,
}

/// Reads a duration: an integer is milliseconds, a number with `.` or an exponent is seconds, rounded to the nearest
/// millisecond. Errors: negative, not a number, above ten years.
pub fn parse_duration(value: &Value) -> Result<i64, TimeProblem> {
    let number = value.as_number().ok_or(TimeProblem::NotANumber)?;
    if let Some(ms) = number.as_u64() {
        return i64::try_from(ms).ok().filter(|ms| *ms <= DURATION_MS_MAX).ok_or(TimeProblem::TooLong);
    }
    if number.as_i64().is_some() {
        return Err(TimeProblem::Negative);
    }
    let seconds = number.as_f64().ok_or(TimeProblem::NotANumber)?;
    if seconds < 0.0 {
        return Err(TimeProblem::Negative);
    }
    let ms = (seconds * 1000.0).round();
    if ms > DURATION_MS_MAX as f64 {
        return Err(TimeProblem::TooLong);
    }
    Ok(ms as i64)
}

/// Reads an RFC 3339 instant. Errors: other text, other years.
pub fn parse_instant(text: &str) -> Result<Millis, TimeProblem> {
    let at = DateTime::parse_from_rfc3339(text).map_err(|_| TimeProblem::Instant)?;
    let ms = at.timestamp_millis();
    if (Millis::MIN.0..=Millis::MAX.0).contains(&ms) { Ok(Millis(ms)) } else { Err(TimeProblem::Instant) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_integer_is_milliseconds_and_a_fraction_is_seconds() {
        for (input, expected) in [
            (json!(300), Ok(300)),
            (json!(0.2), Ok(200)),
            (json!(3000.0), Ok(3_000_000)),
            (json!(-1), Err(TimeProblem::Negative)),
            (json!(-0.0), Ok(0)),
            (json!(315_360_000_000_i64), Ok(315_360_000_000)),
            (json!(315_360_000_001_i64), Err(TimeProblem::TooLong)),
            (json!(u64::MAX), Err(TimeProblem::TooLong)),
            (json!(1e300), Err(TimeProblem::TooLong)),
            (json!("5"), Err(TimeProblem::NotANumber)),
        ] {
            assert_eq!(parse_duration(&input), expected, "{input}");
        }
    }

    #[test]
    fn arithmetic_stays_within_the_calendar() {
        assert_eq!(Millis::MAX.plus(i64::MAX), Millis::MAX);
        assert_eq!(Millis::MIN.plus(i64::MIN), Millis::MIN);
        assert_eq!(Millis(5).since(Millis(9)), 0);
    }
}
