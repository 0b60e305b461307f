//! `context.data`, with the size of its JSON text known at every moment: a limit is judged by what changes, never by
//! writing everything out again.

use orch8_model::json;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// Data of a run and the bytes of its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Data {
    map: Map<String, Value>,
    bytes: usize,
}

/// Why a value cannot be written at a path: this segment of the path (counted from 0) is not an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAnObject(pub usize);

impl Data {
    pub(crate) fn new(map: Map<String, Value>) -> Self {
        let bytes = map_bytes(&map);
        Self { map, bytes }
    }

    pub(crate) fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// Bytes of the JSON text.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes there would be after these keys were set.
    pub(crate) fn bytes_after<'a>(&self, patch: impl Iterator<Item = (&'a String, &'a Value)>) -> usize {
        let mut bytes = self.bytes;
        let mut entries = self.map.len();
        for (key, value) in patch {
            match self.map.get(key) {
                Some(old) => bytes = (bytes + json::size(value)).saturating_sub(json::size(old)),
                None => {
                    bytes += entry_bytes(key, json::size(value), entries);
                    entries += 1;
                }
            }
        }
        bytes
    }

    /// Sets a top-level key; a new one goes last.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        let new = json::size(&value);
        match self.map.get_mut(key) {
            Some(old) => {
                self.bytes = (self.bytes + new).saturating_sub(json::size(old));
                *old = value;
            }
            None => {
                self.bytes += entry_bytes(key, new, self.map.len());
                self.map.insert(key.to_owned(), value);
            }
        }
    }

    /// Bytes there would be after [`Data::write`]. Errors: something on the way is not an object.
    pub(crate) fn bytes_after_write(&self, path: &[String], value: &Value) -> Result<usize, NotAnObject> {
        let mut at = &self.map;
        for (depth, key) in path.iter().enumerate() {
            let last = depth + 1 == path.len();
            match at.get(key) {
                Some(old) if last => {
                    return Ok((self.bytes + json::size(value)).saturating_sub(json::size(old)));
                }
                Some(Value::Object(inner)) => at = inner,
                Some(_) => return Err(NotAnObject(depth)),
                None => {
                    let inside = path[depth + 1..]
                        .iter()
                        .rev()
                        .fold(json::size(value), |bytes, key| 2 + entry_bytes(key, bytes, 0));
                    return Ok(self.bytes + entry_bytes(key, inside, at.len()));
                }
            }
        }
        Ok(self.bytes)
    }

    /// Writes at a path, creating objects on the way. Something else on the way: nothing is written.
    pub(crate) fn write(&mut self, path: &[String], value: Value) {
        let Ok(bytes) = self.bytes_after_write(path, &value) else { return };
        let Some((last, way)) = path.split_last() else { return };
        let mut at = &mut self.map;
        for key in way {
            let next = at.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(inner) = next else { return };
            at = inner;
        }
        at.insert(last.clone(), value);
        self.bytes = bytes;
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.map.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::new)
    }
}

/// Bytes of an object's compact JSON text.
pub(crate) fn map_bytes(map: &Map<String, Value>) -> usize {
    let entries = map.iter().enumerate();
    entries.fold(2, |bytes, (before, (key, value))| bytes + entry_bytes(key, json::size(value), before))
}

/// Key, colon, value, and the comma when other entries stand before it.
fn entry_bytes(key: &str, value_bytes: usize, before: usize) -> usize {
    json::size(&Value::String(key.to_owned())) + 1 + value_bytes + usize::from(before > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn a_write_creates_objects_on_its_way_and_refuses_to_pass_through_a_scalar() {
        let mut data = Data::new(Map::new());
        data.write(&path("a.b.c"), json!(1));
        data.write(&path("a.b.d"), json!("x"));
        assert_eq!(Value::Object(data.map().clone()), json!({"a": {"b": {"c": 1, "d": "x"}}}));
        assert_eq!(data.bytes_after_write(&path("a.b.c.e"), &json!(2)), Err(NotAnObject(2)));
    }

    proptest! {
        #[test]
        fn the_size_is_always_that_of_the_text(
            writes in prop::collection::vec(("[ab]{1}(\\.[ab]{1}){0,2}", prop_oneof![Just(json!(1)), Just(json!({"k\"": [1.5]})), Just(json!("é"))], any::<bool>()), 0..12)
        ) {
            let mut data = Data::new(Map::new());
            for (at, value, whole) in writes {
                let path = path(&at);
                if whole {
                    let patch: Map<String, Value> = [(path[0].clone(), value.clone())].into_iter().collect();
                    let expected = data.bytes_after(patch.iter());
                    data.set(&path[0], value);
                    prop_assert_eq!(expected, data.bytes());
                } else {
                    data.write(&path, value);
                }
                prop_assert_eq!(data.bytes(), orch8_model::json::print(&Value::Object(data.map().clone())).len());
            }
        }
    }
}
