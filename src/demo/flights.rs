//! Two thousand real flights, and what plain arithmetic says should happen to each.

use serde::Deserialize;
use serde_json::{Value, json};

const FLIGHTS: &str = include_str!("../../examples/flights/flights-2k.json");
/// The workflow, as readers of `examples/` see it.
pub const SEQUENCE: &str = include_str!("../../examples/flights/sequence.json");
/// Its name.
pub const SEQUENCE_NAME: &str = "flight-refunds";

/// Flights in the file.
pub const FLIGHTS_MAX: u32 = 2_000;
/// From here on half of the fare is given back.
const PARTIAL_FROM_MINUTES: i64 = 60;
/// From here on all of it.
const FULL_FROM_MINUTES: i64 = 180;

/// A flight as the file has it, numbered by its place there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Flight {
    #[serde(skip)]
    pub number: u32,
    pub date: String,
    /// Minutes; negative = early.
    pub delay: i64,
    /// Miles.
    pub distance: i64,
    pub origin: String,
    pub destination: String,
}

/// How much is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    None,
    Partial,
    Full,
}

impl Class {
    pub const ALL: [Class; 3] = [Class::None, Class::Partial, Class::Full];

    /// By minutes of delay.
    pub fn of(delay: i64) -> Self {
        match delay {
            FULL_FROM_MINUTES.. => Class::Full,
            PARTIAL_FROM_MINUTES.. => Class::Partial,
            _ => Class::None,
        }
    }

    /// As workflow data spells it.
    pub fn name(self) -> &'static str {
        match self {
            Class::None => "none",
            Class::Partial => "partial",
            Class::Full => "full",
        }
    }

    /// Share of the fare.
    fn percent(self) -> i64 {
        match self {
            Class::None => 0,
            Class::Partial => 50,
            Class::Full => 100,
        }
    }
}

impl Flight {
    /// An invented fare: 50 dollars and ten cents a mile.
    pub fn fare_cents(&self) -> i64 {
        5_000 + 10 * self.distance
    }

    pub fn class(&self) -> Class {
        Class::of(self.delay)
    }

    /// What the ledger should show for it, in cents; 0 = no entry.
    pub fn refund_cents(&self) -> i64 {
        self.fare_cents() * self.class().percent() / 100
    }

    /// `context.data` of its run.
    pub fn data(&self) -> Value {
        json!({
            "flight": self.number,
            "date": self.date,
            "delay": self.delay,
            "distance": self.distance,
            "origin": self.origin,
            "destination": self.destination,
            "fare_cents": self.fare_cents(),
        })
    }
}

/// The first `n` flights.
pub fn flights(n: u32) -> anyhow::Result<Vec<Flight>> {
    let mut flights: Vec<Flight> = serde_json::from_str(FLIGHTS)?;
    flights.truncate(n as usize);
    for (number, flight) in (0..).zip(&mut flights) {
        flight.number = number;
    }
    Ok(flights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_74_partial_and_4_full_refunds() {
        let flights = flights(FLIGHTS_MAX).expect("the file parses");
        let count = |class| flights.iter().filter(|flight| flight.class() == class).count();
        assert_eq!(flights.len(), 2_000);
        assert_eq!((count(Class::None), count(Class::Partial), count(Class::Full)), (1_922, 74, 4));
        assert_eq!(flights[1_999].number, 1_999);
    }

    #[test]
    fn classes_begin_at_60_and_180_minutes() {
        for (delay, class) in [
            (-30, Class::None),
            (59, Class::None),
            (60, Class::Partial),
            (179, Class::Partial),
            (180, Class::Full),
            (i64::MAX, Class::Full),
        ] {
            assert_eq!(Class::of(delay), class, "{delay}");
        }
    }

    #[test]
    fn the_published_workflow_says_the_same_as_the_arithmetic() {
        let document: Value = serde_json::from_str(SEQUENCE).expect("is JSON");
        assert_eq!(document["name"], SEQUENCE_NAME);
        let routes = &document["blocks"][3]["routes"];
        assert_eq!(routes[0]["condition"], "data.delay >= 180");
        assert_eq!(routes[0]["blocks"][0]["params"]["percent"], Class::Full.percent());
        assert_eq!(routes[1]["condition"], "data.delay >= 60");
        assert_eq!(routes[1]["blocks"][0]["params"]["percent"], Class::Partial.percent());
    }
}
