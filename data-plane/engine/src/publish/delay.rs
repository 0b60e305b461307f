//! `delay`: how long a step waits after its activation.

use chrono::{NaiveDate, NaiveDateTime};
use chrono_tz::Tz;

use super::{
    code,
    object::Object,
    report::{Report, element, quote},
    shape,
};
use crate::program::Delay;

pub(super) fn read(step: &Object<'_>, report: &mut Report) -> Option<Delay> {
    let object = step.inner("delay", &shape::DELAY, report)?;
    if object.optional("duration").is_none() {
        object.missing("duration", report);
    }
    let (fire_at_local, timezone) = local(&object, report);
    Some(Delay {
        duration_ms: object.duration("duration", report).unwrap_or(0),
        jitter_ms: object.duration("jitter", report).unwrap_or(0),
        business_days_only: object.flag("business_days_only", false, report),
        holidays: holidays(&object, report),
        fire_at_local,
        timezone,
    })
}

/// A local time needs both of its parts: when one cannot be used, neither is.
fn local(object: &Object<'_>, report: &mut Report) -> (Option<NaiveDateTime>, Option<Tz>) {
    let text = object.text("fire_at_local", report);
    let time = text.map(|text| local_time(text).ok_or(text));
    let zone = object.text("timezone", report);
    let zone = zone.map(|text| text.parse::<Tz>().map_err(|_| text));
    if let Some(Err(text)) = time {
        let rule = "is not YYYY-MM-DDTHH:MM:SS and is ignored; duration decides";
        let message = format!("fire_at_local {} {rule}", quote(text));
        report.warn(code::INVALID_LOCAL_TIME, object.at("fire_at_local"), message);
    }
    if let Some(Err(text)) = zone {
        let message = format!("timezone {} is no IANA zone; duration decides", quote(text));
        report.warn(code::INVALID_TIMEZONE, object.at("timezone"), message);
    }
    if zone.is_some() && time.is_none() {
        let message = "timezone does nothing without fire_at_local";
        report.warn(code::NO_EFFECT, object.at("timezone"), message);
    }
    match (time, zone) {
        (Some(Ok(time)), None) => (Some(time), None),
        (Some(Ok(time)), Some(Ok(zone))) => (Some(time), Some(zone)),
        _ => (None, None),
    }
}

fn holidays(object: &Object<'_>, report: &mut Report) -> Vec<NaiveDate> {
    let list = object.list("holidays", report).unwrap_or_default();
    let place = object.at("holidays");
    let mut days = Vec::new();
    for (i, day) in list.iter().enumerate() {
        match day.as_str().and_then(date) {
            Some(day) => days.push(day),
            None => report.invalid(element(&place, i), "a holiday must be a date YYYY-MM-DD"),
        }
    }
    days
}

/// Exactly `YYYY-MM-DD`; chrono alone also takes fewer digits and signs.
fn date(text: &str) -> Option<NaiveDate> {
    let whole = text.len() == "YYYY-MM-DD".len();
    whole.then(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()).flatten()
}

/// Exactly `YYYY-MM-DDTHH:MM:SS`, without leap seconds.
fn local_time(text: &str) -> Option<NaiveDateTime> {
    let whole = text.len() == "YYYY-MM-DDTHH:MM:SS".len() && !text.ends_with(":60");
    whole.then(|| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok()).flatten()
}
