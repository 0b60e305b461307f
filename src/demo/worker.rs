//! The demo's worker: three handlers made with the Rust SDK, and bad luck on purpose.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Args;
use orch8_worker::{StepContext, StepError, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    airports,
    flights::Class,
    ledger::{self, Answer, Entry},
};
use crate::{connection::Connection, error::Exit};

/// The same after every restart, so that the engine knows at once that the former process is gone.
const WORKER_ID: &str = "demo-worker";
const MAX_IN_FLIGHT: usize = 32;

/// The hidden process.
#[derive(Debug, Args)]
pub struct DemoWorkerArgs {
    /// Folder of the engine.
    #[arg(long)]
    dir: PathBuf,
    /// Where the ledger listens.
    #[arg(long)]
    ledger: SocketAddr,
    /// How long each step takes at least.
    #[arg(long)]
    pace_ms: u64,
}

pub async fn run(args: DemoWorkerArgs) -> anyhow::Result<Exit> {
    let connection = Connection::read(&args.dir)?.context("there is no engine in the demo's folder")?;
    let pace = Duration::from_millis(args.pace_ms);
    let ledger = args.ledger;
    Worker::builder(connection.address)
        .credential(connection.worker_key.reveal())
        .worker_id(WORKER_ID)
        .version(env!("ORCH8_VERSION"))
        .max_in_flight(MAX_IN_FLIGHT)
        .reconnect(Duration::from_millis(50), Duration::from_secs(1))
        .handler("airport_lookup", move |_: StepContext, input: Lookup| async move {
            tokio::time::sleep(pace).await;
            look_up(&input)
        })
        .handler("classify", move |_: StepContext, input: Facts| async move {
            tokio::time::sleep(pace).await;
            Ok(classify(&input))
        })
        .handler("refund", move |context: StepContext, input: Refund| async move {
            tokio::time::sleep(pace).await;
            let luck = uuid::Uuid::new_v4().as_bytes()[0];
            refund(&input, context.idempotency_key(), ledger, Mishap::of(luck)).await
        })
        .run(orch8_worker::termination())
        .await?;
    Ok(Exit::Ok)
}

#[derive(Debug, Deserialize)]
struct Lookup {
    iata: String,
}

/// What `airport_lookup` answers and `classify` gets twice.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    iata: String,
    name: String,
    city: String,
    state: String,
    latitude: f64,
    longitude: f64,
}

#[derive(Debug, Deserialize)]
struct Facts {
    delay: i64,
    from: Place,
    to: Place,
}

#[derive(Debug, Deserialize)]
struct Refund {
    flight: u32,
    fare_cents: i64,
    percent: i64,
}

fn look_up(input: &Lookup) -> Result<Place, StepError> {
    let airport = airports::find(&input.iata).ok_or_else(|| {
        StepError::permanent(format!("no airport has the code {}", input.iata)).code("UNKNOWN_AIRPORT")
    })?;
    Ok(Place {
        iata: input.iata.clone(),
        name: airport.name.clone(),
        city: airport.city.clone(),
        state: airport.state.clone(),
        latitude: airport.latitude,
        longitude: airport.longitude,
    })
}

fn classify(facts: &Facts) -> Value {
    json!({
        "class": Class::of(facts.delay).name(),
        "route": format!("{}, {} → {}, {}", facts.from.city, facts.from.state, facts.to.city, facts.to.state),
        "great_circle_km": great_circle_km(&facts.from, &facts.to).round() as i64,
    })
}

/// The haversine formula on a sphere of 6,371 km.
fn great_circle_km(from: &Place, to: &Place) -> f64 {
    let half_chord = |a: f64, b: f64| ((b - a).to_radians() / 2.0).sin().powi(2);
    let latitudes = from.latitude.to_radians().cos() * to.latitude.to_radians().cos();
    let h = half_chord(from.latitude, to.latitude) + latitudes * half_chord(from.longitude, to.longitude);
    2.0 * 6_371.0 * h.sqrt().clamp(0.0, 1.0).asin()
}

/// Where a refund breaks, this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    None,
    /// Nothing was paid.
    BeforePaying,
    /// It was paid, and nobody was told.
    AfterPaying,
}

impl Mishap {
    /// Three in ten refunds break, half of them after paying. `luck` is uniform.
    fn of(luck: u8) -> Self {
        match luck {
            0..38 => Mishap::BeforePaying,
            38..77 => Mishap::AfterPaying,
            77.. => Mishap::None,
        }
    }
}

async fn refund(input: &Refund, key: &str, ledger: SocketAddr, mishap: Mishap) -> Result<Value, StepError> {
    if mishap == Mishap::BeforePaying {
        return Err(StepError::retryable("the bank did not pick up").code("BANK_BUSY"));
    }
    let amount = input
        .fare_cents
        .checked_mul(input.percent)
        .map(|product| product / 100)
        .ok_or_else(|| StepError::permanent("the fare is out of this world").code("INVALID_PARAMS"))?;
    let entry = Entry { key: key.to_owned(), flight: input.flight, amount };
    // Whether it was applied is unknown when this fails; the next try asks with the same key.
    let answer = ledger::apply(ledger, &entry)
        .await
        .map_err(|error| StepError::retryable(format!("{error:#}")).code("BANK_LOST"))?;
    if answer == Answer::Conflict {
        return Err(StepError::permanent("this key has paid for something else").code("CONFLICT"));
    }
    if mishap == Mishap::AfterPaying {
        return Err(StepError::retryable("the bank paid, and the line broke").code("LINE_BROKE"));
    }
    Ok(json!({ "refund_cents": amount, "ledger": answer }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_ten_refunds_break_half_of_them_after_paying() {
        let count = |mishap| (0..=u8::MAX).filter(|luck| Mishap::of(*luck) == mishap).count();
        assert_eq!(
            (count(Mishap::BeforePaying), count(Mishap::AfterPaying), count(Mishap::None)),
            (38, 39, 179)
        );
    }

    #[test]
    fn classify_says_class_route_and_distance() {
        let place = |iata: &str| look_up(&Lookup { iata: iata.to_owned() }).expect("is in the file");
        let facts = Facts { delay: 61, from: place("SAN"), to: place("SMF") };
        assert_eq!(
            classify(&facts),
            json!({ "class": "partial", "route": "San Diego, CA → Sacramento, CA", "great_circle_km": 773 })
        );
        assert!(!look_up(&Lookup { iata: "nowhere".to_owned() }).expect_err("refused").is_retryable());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_refund_that_breaks_after_paying_is_paid_once_when_tried_again() {
        let dir = tempfile::tempdir().expect("temp folder");
        let (address, server) = ledger::for_tests(dir.path()).await;
        let input = Refund { flight: 3, fare_cents: 9_999, percent: 50 };
        for mishap in [Mishap::BeforePaying, Mishap::AfterPaying, Mishap::AfterPaying] {
            assert!(refund(&input, "k", address, mishap).await.expect_err("breaks").is_retryable());
        }
        let done = refund(&input, "k", address, Mishap::None).await.expect("goes through");
        assert_eq!(done, json!({ "refund_cents": 4_999, "ledger": "already" }));
        let entries = ledger::entries(dir.path()).expect("reads");
        assert_eq!(entries, [Entry { key: "k".to_owned(), flight: 3, amount: 4_999 }]);
        server.abort();
    }
}
