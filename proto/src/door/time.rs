//! Instants and durations.

use std::time::Duration;

use orch8_model::{Fault, Millis, limits::DURATION_MS_MAX};
use prost_types::{Duration as WireDuration, Timestamp};

const NANOS_PER_MILLI: i32 = 1_000_000;
const NANOS_PER_SECOND: i32 = 1_000_000_000;

/// An instant, cut to whole milliseconds. Errors: outside the years 1 to 9999, nanoseconds outside a second.
pub fn instant(field: &str, at: Option<Timestamp>) -> Result<Option<Millis>, Fault> {
    let Some(at) = at else { return Ok(None) };
    if !(0..NANOS_PER_SECOND).contains(&at.nanos) {
        return Err(Fault::invalid(field, "must have nanos between 0 and 999,999,999"));
    }
    at.seconds
        .checked_mul(1_000)
        .and_then(|ms| ms.checked_add(i64::from(at.nanos / NANOS_PER_MILLI)))
        .filter(|ms| (Millis::MIN.0..=Millis::MAX.0).contains(ms))
        .map(|ms| Some(Millis(ms)))
        .ok_or_else(|| Fault::invalid(field, "must lie between 0001-01-01 and 9999-12-31"))
}

/// An instant on the wire.
pub fn wire_instant(at: Millis) -> Timestamp {
    let at = at.plus(0).0;
    Timestamp { seconds: at.div_euclid(1_000), nanos: at.rem_euclid(1_000) as i32 * NANOS_PER_MILLI }
}

/// A duration, cut to whole milliseconds. Errors: negative, above ten years, nanoseconds outside a second.
pub fn duration(field: &str, length: Option<WireDuration>) -> Result<Option<Duration>, Fault> {
    let Some(length) = length else { return Ok(None) };
    if length.seconds < 0 || length.nanos < 0 {
        return Err(Fault::invalid(field, "must not be negative"));
    }
    if length.nanos >= NANOS_PER_SECOND {
        return Err(Fault::invalid(field, "must have nanos below 1,000,000,000"));
    }
    length
        .seconds
        .checked_mul(1_000)
        .and_then(|ms| ms.checked_add(i64::from(length.nanos / NANOS_PER_MILLI)))
        .filter(|ms| *ms <= DURATION_MS_MAX)
        .map(|ms| Some(Duration::from_millis(ms.unsigned_abs())))
        .ok_or_else(|| Fault::invalid(field, "is longer than 10 years").with("limit", DURATION_MS_MAX))
}

/// A duration on the wire; what does not fit becomes the longest one.
pub fn wire_duration(length: Duration) -> WireDuration {
    WireDuration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        nanos: length.subsec_nanos() as i32,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_calendar_holds_is_refused_by_field() {
        for (seconds, nanos) in [
            (i64::MAX, 0),
            (i64::MIN, 0),
            (253_402_300_800, 0),
            (-62_135_596_801, 0),
            (0, -1),
            (0, 1_000_000_000),
        ] {
            let fault = instant("expires_at", Some(Timestamp { seconds, nanos })).expect_err("no instant");
            assert_eq!(fault.fields[0].field, "expires_at");
        }
    }

    #[test]
    fn a_duration_is_neither_negative_nor_above_ten_years() {
        for (seconds, nanos) in [(-1, 0), (0, -1), (i64::MAX, 0), (315_360_001, 0), (0, i32::MAX)] {
            assert!(duration("timeout", Some(WireDuration { seconds, nanos })).is_err(), "{seconds} {nanos}");
        }
        let longest = Some(WireDuration { seconds: 315_360_000, nanos: 0 });
        assert_eq!(duration("timeout", longest), Ok(Some(Duration::from_secs(315_360_000))));
    }

    proptest! {
        #[test]
        fn every_instant_survives_the_wire(ms in Millis::MIN.0..=Millis::MAX.0) {
            prop_assert_eq!(instant("at", Some(wire_instant(Millis(ms)))), Ok(Some(Millis(ms))));
        }

        #[test]
        fn no_timestamp_breaks_the_door(seconds: i64, nanos: i32) {
            let _ = instant("at", Some(Timestamp { seconds, nanos }));
            let _ = duration("for", Some(WireDuration { seconds, nanos }));
        }
    }
}
