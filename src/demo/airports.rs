//! 3,376 airports by IATA code.

use std::{collections::HashMap, sync::LazyLock};

const AIRPORTS: &str = include_str!("../../examples/flights/airports.csv");

/// A line of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Airport {
    pub name: String,
    pub city: String,
    pub state: String,
    pub latitude: f64,
    pub longitude: f64,
}

static BY_IATA: LazyLock<HashMap<String, Airport>> =
    LazyLock::new(|| AIRPORTS.lines().skip(1).filter_map(airport).collect());

/// The airport, if there is one.
pub fn find(iata: &str) -> Option<&'static Airport> {
    BY_IATA.get(iata)
}

fn airport(line: &str) -> Option<(String, Airport)> {
    let [iata, name, city, state, _country, latitude, longitude] = fields(line).try_into().ok()?;
    let airport =
        Airport { name, city, state, latitude: latitude.parse().ok()?, longitude: longitude.parse().ok()? };
    Some((iata, airport))
}

/// Splits at commas outside quotes. The file has no quotes within quotes.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.trim_end().chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => {
                if let Some(field) = fields.last_mut() {
                    field.push(c);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flights::{FLIGHTS_MAX, flights};

    #[test]
    fn every_airport_of_every_flight_is_known() {
        for flight in flights(FLIGHTS_MAX).expect("flights") {
            assert!(find(&flight.origin).is_some(), "{}", flight.origin);
            assert!(find(&flight.destination).is_some(), "{}", flight.destination);
        }
        assert_eq!(BY_IATA.len(), AIRPORTS.lines().count() - 1, "no line was dropped");
    }

    #[test]
    fn commas_within_quotes_do_not_split() {
        let airport = find("35A").expect("is in the file");
        assert_eq!((airport.name.as_str(), airport.city.as_str()), ("Union County, Troy Shelton", "Union"));
        assert_eq!(find(""), None);
    }
}
