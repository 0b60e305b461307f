//! Durations, instants and foreign text as people read them.

use std::{fmt::Write, time::Duration};

use chrono::{DateTime, Utc};

/// `47 ms`, `1.2 s`, `2 min 05 s`, `3 h 10 min`, `2 d 4 h`.
pub fn span(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{minutes} min {:02} s", seconds % 60),
        3_600_000..86_400_000 => format!("{hours} h {:02} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// As [`span`].
pub fn duration(duration: Duration) -> String {
    span(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// `2027-03-14 07:30:00` (UTC).
pub fn instant(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S").to_string()
}

/// `12,345`
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Text from somewhere else, safe on a terminal: control characters are spelled out (a worker's message must not move
/// the cursor or set a title), and what is longer than `max` characters ends in `…`.
pub fn foreign(text: &str, max: usize) -> String {
    let mut shown = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == max {
            shown.push('…');
            break;
        }
        match c {
            '\n' => shown.push('⏎'),
            c if c.is_control() || is_bidi_control(c) => {
                // Writing to a string does not fail.
                let _infallible = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that reorder what follows them on the line.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Reads `500ms`, `30s`, `5m`, `2h`, `1d`; a bare number is seconds. At most ten years.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("wants a number and a unit: 500ms, 30s, 5m, 2h or 1d".to_owned()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .filter(|ms| *ms <= orch8_model::limits::DURATION_MS_MAX.unsigned_abs())
        .map(Duration::from_millis)
        .ok_or_else(|| "wants a whole number of at most ten years".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well_at_every_size() {
        for (ms, expected) in [
            (-5, "0 ms"),
            (47, "47 ms"),
            (1_000, "1.0 s"),
            (1_299, "1.2 s"),
            (59_999, "59.9 s"),
            (125_000, "2 min 05 s"),
            (11_400_000, "3 h 10 min"),
            (187_200_000, "2 d 4 h"),
        ] {
            assert_eq!(span(ms), expected, "{ms}");
        }
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("30", Some(30_000)),
            ("5m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("1d", Some(86_400_000)),
            ("3650d", Some(315_360_000_000)),
            ("3651d", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
            ("5 s", None),
        ] {
            assert_eq!(parse_duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn counts_have_separators() {
        for (n, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), expected);
        }
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(foreign("a\x1b[2Jb\nc\u{202e}d", 100), "a\\u{1b}[2Jb⏎c\\u{202e}d");
        assert_eq!(foreign("éééé", 3), "ééé…");
        assert_eq!(foreign("ééé", 3), "ééé");
    }
}
