//! Does it add up? What the runs and the ledger say, against plain arithmetic on the file. Pure.
//!
//! - **lost**: flights whose run did not end completed, whose run says another class than the arithmetic, or whose
//!   ledger entry is missing or shows another amount (for a flight without refund any entry does).
//! - **double**: flights with more than one entry in the ledger. The ledger takes each idempotency key once, so a
//!   second entry means that one refund was sent under two keys. A flight can be lost and double.

use std::collections::HashMap;

use orch8_proto::v1::{Instance, InstanceState};
use serde_json::{Value, json};

use super::{
    flights::{Class, Flight},
    ledger::Entry,
};
use crate::{
    human, json as wire,
    screen::{Paint, Table},
};

/// How a run ended, as far as accounts go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the class that the run itself says; `None` when it says none that exists.
    Completed(Option<Class>),
    /// Failed, cancelled, open or not to be found.
    Otherwise,
}

impl Ending {
    pub fn of(instance: &Instance) -> Self {
        match instance.state() {
            InstanceState::Completed => {
                let data = wire::value(instance.data.as_ref());
                Self::Completed(Class::ALL.into_iter().find(|class| data["class"] == class.name()))
            }
            InstanceState::Unspecified
            | InstanceState::Scheduled
            | InstanceState::Running
            | InstanceState::Waiting
            | InstanceState::Paused
            | InstanceState::Failed
            | InstanceState::Cancelled => Self::Otherwise,
        }
    }
}

/// The sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub completed: u64,
    pub partial: u64,
    pub full: u64,
    pub lost: u64,
    pub double: u64,
    /// Ledger entries of flights that do not exist.
    pub strays: u64,
    flights: u64,
    /// Rows of the table, in the order of [`Class::ALL`].
    classes: [ClassSums; 3],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClassSums {
    /// Runs that ended in this class.
    runs: u64,
    /// Flights that should.
    expected_runs: u64,
    delay_minutes: i64,
    entries: u64,
    cents: i64,
    expected_cents: i64,
}

/// `endings[i]` belongs to `flights[i]`; a missing one counts as [`Ending::Otherwise`].
pub fn tally(flights: &[Flight], endings: &[Ending], ledger: &[Entry]) -> Tally {
    let mut entries: HashMap<u32, Vec<i64>> = HashMap::new();
    for entry in ledger {
        entries.entry(entry.flight).or_default().push(entry.amount);
    }
    let mut tally = Tally { flights: flights.len() as u64, ..Tally::default() };
    for (i, flight) in flights.iter().enumerate() {
        let amounts = entries.remove(&flight.number).unwrap_or_default();
        tally.count(flight, endings.get(i).unwrap_or(&Ending::Otherwise), &amounts);
    }
    tally.strays = entries.values().map(|amounts| amounts.len() as u64).sum();
    tally
}

impl Tally {
    fn count(&mut self, flight: &Flight, ending: &Ending, amounts: &[i64]) {
        let expected = flight.class();
        let row = &mut self.classes[expected as usize];
        row.expected_runs += 1;
        row.expected_cents += flight.refund_cents();

        let said = match ending {
            Ending::Completed(class) => {
                self.completed += 1;
                *class
            }
            Ending::Otherwise => None,
        };
        if let Some(class) = said {
            let row = &mut self.classes[class as usize];
            row.runs += 1;
            row.delay_minutes += flight.delay;
            row.entries += amounts.len() as u64;
            row.cents += amounts.iter().sum::<i64>();
        }
        match said {
            Some(Class::Partial) => self.partial += 1,
            Some(Class::Full) => self.full += 1,
            Some(Class::None) | None => {}
        }
        let paid = match flight.refund_cents() {
            0 => amounts.is_empty(),
            cents => !amounts.is_empty() && amounts.iter().all(|amount| *amount == cents),
        };
        self.lost += u64::from(said != Some(expected) || !paid);
        self.double += u64::from(amounts.len() > 1);
    }

    /// Everything is as the arithmetic says.
    pub fn adds_up(&self) -> bool {
        let rows_agree =
            self.classes.iter().all(|row| row.runs == row.expected_runs && row.cents == row.expected_cents);
        self.completed == self.flights && self.lost == 0 && self.double == 0 && self.strays == 0 && rows_agree
    }

    /// The last line for scripts.
    pub fn line(&self) -> Value {
        json!({
            "completed": self.completed,
            "partial": self.partial,
            "full": self.full,
            "lost": self.lost,
            "double": self.double,
        })
    }

    /// The table for people, with the arithmetic beside what happened.
    pub fn render(&self, paint: Paint) -> String {
        let mut table = Table::new([
            "REFUND",
            "FLIGHTS",
            "EXPECTED",
            "MEAN DELAY",
            "LEDGER ENTRIES",
            "LEDGER SUM",
            "EXPECTED SUM",
        ]);
        for (class, row) in Class::ALL.into_iter().zip(&self.classes) {
            let mean = if row.runs == 0 {
                String::new()
            } else {
                format!("{:.1} min", row.delay_minutes as f64 / row.runs as f64)
            };
            table.row([
                class.name().to_owned(),
                human::count(row.runs),
                human::count(row.expected_runs),
                mean,
                human::count(row.entries),
                dollars(row.cents),
                dollars(row.expected_cents),
            ]);
        }
        let verdict = format!(
            "{} of {} completed, {} lost, {} refunded twice",
            human::count(self.completed),
            human::count(self.flights),
            human::count(self.lost),
            human::count(self.double)
        );
        let strays = if self.strays == 0 {
            String::new()
        } else {
            format!(", {} ledger entries of no flight", self.strays)
        };
        let verdict = if self.adds_up() {
            paint.green(&format!("✓ it adds up: {verdict}"))
        } else {
            paint.red(&format!("✗ it does not add up: {verdict}{strays}"))
        };
        format!("{table}\n\n{verdict}")
    }
}

fn dollars(cents: i64) -> String {
    format!("${}.{:02}", human::count(cents.unsigned_abs() / 100), cents.unsigned_abs() % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flights::flights;

    /// Three flights, one of each class, with fares of 150 dollars.
    fn trio() -> Vec<Flight> {
        let mut trio = flights(3).expect("flights");
        for (flight, delay) in trio.iter_mut().zip([5, 90, 200]) {
            flight.delay = delay;
            flight.distance = 1_000;
        }
        trio
    }

    fn entry(key: &str, flight: u32, amount: i64) -> Entry {
        Entry { key: key.to_owned(), flight, amount }
    }

    const GOOD: [Ending; 3] = [
        Ending::Completed(Some(Class::None)),
        Ending::Completed(Some(Class::Partial)),
        Ending::Completed(Some(Class::Full)),
    ];

    fn good_ledger() -> Vec<Entry> {
        vec![entry("a", 1, 7_500), entry("b", 2, 15_000)]
    }

    #[test]
    fn when_all_went_well_it_adds_up() {
        let tally = tally(&trio(), &GOOD, &good_ledger());
        assert!(tally.adds_up());
        assert_eq!(tally.line().to_string(), r#"{"completed":3,"partial":1,"full":1,"lost":0,"double":0}"#);
    }

    #[test]
    fn whatever_goes_wrong_is_counted() {
        let with = |i: usize, ending: Ending| {
            let mut endings = GOOD.to_vec();
            endings[i] = ending;
            endings
        };
        let plus = |more: Entry| [good_ledger(), vec![more]].concat();
        for (what, endings, ledger, (completed, lost, double, strays)) in [
            ("a run failed", with(0, Ending::Otherwise), good_ledger(), (2, 1, 0, 0)),
            ("a run was never started", GOOD[..2].to_vec(), good_ledger(), (2, 1, 0, 0)),
            ("a refund is missing", GOOD.to_vec(), good_ledger()[..1].to_vec(), (3, 1, 0, 0)),
            (
                "an amount is wrong",
                GOOD.to_vec(),
                vec![entry("a", 1, 7_501), entry("b", 2, 15_000)],
                (3, 1, 0, 0),
            ),
            ("refunded twice", GOOD.to_vec(), plus(entry("c", 1, 7_500)), (3, 0, 1, 0)),
            ("refunded twice, once wrongly", GOOD.to_vec(), plus(entry("c", 1, 1)), (3, 1, 1, 0)),
            ("refunded without reason", GOOD.to_vec(), plus(entry("c", 0, 7_500)), (3, 1, 0, 0)),
            ("wrong class", with(0, Ending::Completed(Some(Class::Full))), good_ledger(), (3, 1, 0, 0)),
            ("no class", with(0, Ending::Completed(None)), good_ledger(), (3, 1, 0, 0)),
            ("an entry of no flight", GOOD.to_vec(), plus(entry("c", 99, 1)), (3, 0, 0, 1)),
        ] {
            let tally = tally(&trio(), &endings, &ledger);
            assert!(!tally.adds_up(), "{what}");
            assert_eq!(
                (tally.completed, tally.lost, tally.double, tally.strays),
                (completed, lost, double, strays),
                "{what}"
            );
        }
    }

    #[test]
    fn the_table_shows_the_arithmetic_beside_what_happened() {
        let shown = tally(&trio(), &GOOD, &good_ledger()).render(Paint(false));
        let lines: Vec<String> =
            shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "REFUND FLIGHTS EXPECTED MEAN DELAY LEDGER ENTRIES LEDGER SUM EXPECTED SUM",
                "none 1 1 5.0 min 0 $0.00 $0.00",
                "partial 1 1 90.0 min 1 $75.00 $75.00",
                "full 1 1 200.0 min 1 $150.00 $150.00",
                "",
                "✓ it adds up: 3 of 3 completed, 0 lost, 0 refunded twice",
            ]
        );
    }

    #[test]
    fn the_class_of_a_run_is_what_its_data_says() {
        let run = |state: InstanceState, data: &str| Instance {
            state: state.into(),
            data: Some(orch8_proto::v1::Payload {
                data: data.to_owned().into(),
                content_type: String::new(),
            }),
            ..Instance::default()
        };
        for (state, data, expected) in [
            (InstanceState::Completed, r#"{"class":"full"}"#, Ending::Completed(Some(Class::Full))),
            (InstanceState::Completed, r#"{"class":"FULL"}"#, Ending::Completed(None)),
            (InstanceState::Completed, "[]", Ending::Completed(None)),
            (InstanceState::Failed, r#"{"class":"full"}"#, Ending::Otherwise),
            (InstanceState::Running, r#"{"class":"full"}"#, Ending::Otherwise),
        ] {
            assert_eq!(Ending::of(&run(state, data)), expected, "{state:?} {data}");
        }
    }
}
