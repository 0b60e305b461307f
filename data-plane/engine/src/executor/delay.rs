//! When a delayed step is ready: computed once, on the calendar of a time zone.

use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Weekday};
use chrono_tz::Tz;
use orch8_model::Millis;
use serde_json::Value;

use super::Run;
use crate::program::Delay;

/// Days a target moves at most to find a business day.
const MOVES_MAX: usize = 366;

impl Run<'_> {
    pub(super) fn delay_until(&self, delay: &Delay) -> Millis {
        let zone = self.instance.birth().timezone.parse().unwrap_or(Tz::UTC);
        let mut holidays = delay.holidays.clone();
        if let Some(listed) = self.instance.config().get("holidays").and_then(Value::as_array) {
            let days = listed.iter().filter_map(Value::as_str);
            holidays.extend(days.filter_map(|day| day.parse::<NaiveDate>().ok()));
        }
        target(delay, zone, &holidays, self.now, self.rng.unit())
    }
}

/// `random`: uniform in [0, 1).
fn target(delay: &Delay, zone: Tz, holidays: &[NaiveDate], activated: Millis, random: f64) -> Millis {
    let local = delay.fire_at_local.and_then(|local| resolve(delay.timezone.unwrap_or(zone), local));
    let base = local.unwrap_or_else(|| activated.plus(delay.duration_ms));
    let calendar = |at: Millis| if delay.business_days_only { business_day(at, zone, holidays) } else { at };
    let mut at = calendar(base);
    if delay.jitter_ms > 0 {
        let shift = (2.0 * random - 1.0) * delay.jitter_ms as f64;
        at = calendar(at.plus(shift.round() as i64));
    }
    at.max(activated)
}

/// The instant of a local time. In a gap it moves forward by the gap; of two, the earlier.
fn resolve(zone: Tz, local: NaiveDateTime) -> Option<Millis> {
    if let Some(at) = zone.from_local_datetime(&local).earliest() {
        return Some(at.to_utc().into());
    }
    // Read with the offset that held before the gap. Gaps are up to a day long (a change of the date line).
    let before = (1..=26).find_map(|hours| {
        let earlier = local.checked_sub_signed(TimeDelta::hours(hours))?;
        zone.from_local_datetime(&earlier).latest().map(|at| (at, hours))
    });
    let (at, hours) = before?;
    at.to_utc().checked_add_signed(TimeDelta::hours(hours)).map(Millis::from)
}

/// The instant itself, or the same time of day on the next day that is neither weekend nor holiday.
fn business_day(at: Millis, zone: Tz, holidays: &[NaiveDate]) -> Millis {
    let local = at.to_datetime().with_timezone(&zone).naive_local();
    let mut day = local.date();
    for _ in 0..MOVES_MAX {
        if !matches!(day.weekday(), Weekday::Sat | Weekday::Sun) && !holidays.contains(&day) {
            break;
        }
        let Some(next) = day.checked_add_days(Days::new(1)) else { return at };
        day = next;
    }
    if day == local.date() { at } else { resolve(zone, day.and_time(local.time())).unwrap_or(at) }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;

    fn at(text: &str) -> Millis {
        DateTime::parse_from_rfc3339(text).expect("an instant").with_timezone(&Utc).into()
    }

    fn delay() -> Delay {
        Delay {
            duration_ms: 3_600_000,
            jitter_ms: 0,
            business_days_only: false,
            holidays: Vec::new(),
            fire_at_local: None,
            timezone: None,
        }
    }

    #[test]
    fn a_local_time_is_read_on_the_clock_of_its_zone() {
        for (zone, local, expected) in [
            (Tz::America__New_York, "2027-03-14T02:30:00", "2027-03-14T07:30:00Z"),
            (Tz::Europe__Paris, "2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
            (Tz::Pacific__Apia, "2011-12-30T12:00:00", "2011-12-30T22:00:00Z"),
            (Tz::UTC, "2027-03-14T02:30:00", "2027-03-14T02:30:00Z"),
        ] {
            let local = local.parse().expect("a local time");
            let delay = Delay { fire_at_local: Some(local), timezone: Some(zone), ..delay() };
            assert_eq!(
                target(&delay, Tz::UTC, &[], at("2000-01-01T00:00:00Z"), 0.5),
                at(expected),
                "{local}"
            );
        }
    }

    #[test]
    fn a_business_day_keeps_the_time_of_day_and_passes_weekends_and_holidays() {
        let delay = Delay { business_days_only: true, ..delay() };
        // A Friday evening in New York is Saturday in UTC.
        let friday = at("2027-03-13T00:00:00Z");
        assert_eq!(target(&delay, Tz::America__New_York, &[], friday, 0.0), at("2027-03-13T01:00:00Z"));
        let monday = NaiveDate::from_ymd_opt(2027, 3, 15).expect("a day");
        assert_eq!(target(&delay, Tz::UTC, &[monday], friday, 0.0), at("2027-03-16T01:00:00Z"));
    }

    #[test]
    fn jitter_stays_in_its_range_and_never_comes_before_the_activation() {
        let now = at("2027-03-16T12:00:00Z");
        let delay = Delay { jitter_ms: 7_200_000, ..delay() };
        assert_eq!(target(&delay, Tz::UTC, &[], now, 0.0), now);
        assert_eq!(target(&delay, Tz::UTC, &[], now, 0.5), now.plus(3_600_000));
        assert!(target(&delay, Tz::UTC, &[], now, 0.999_999) <= now.plus(3 * 3_600_000));
    }
}
