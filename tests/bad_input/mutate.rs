//! A good message, spoilt in one place at a time.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

/// A spoilt message.
pub struct Mutation {
    /// Field names from the root to the spoilt place.
    pub place: Vec<String>,
    pub what: &'static str,
    pub message: DynamicMessage,
}

/// Every way to spoil it.
pub fn mutations(message: &DynamicMessage) -> Vec<Mutation> {
    let mut found = Vec::new();
    for field in message.descriptor().fields() {
        let spoilt = match message.has_field(&field) {
            true => spoil_present(message, &field),
            false if field.containing_oneof().is_some() => Vec::new(),
            false => spoil_absent(&field),
        };
        for (mut place, what, value) in spoilt {
            place.insert(0, field.name().to_owned());
            if let Some(oneof) = field.containing_oneof() {
                place.push(oneof.name().to_owned());
            }
            let mut copy = message.clone();
            match value {
                Some(value) => copy.set_field(&field, value),
                None => copy.clear_field(&field),
            }
            found.push(Mutation { place, what, message: copy });
        }
    }
    found
}

type Spoilt = (Vec<String>, &'static str, Option<Value>);

fn spoil_present(message: &DynamicMessage, field: &FieldDescriptor) -> Vec<Spoilt> {
    let value = message.get_field(field).into_owned();
    let mut found = match &value {
        Value::Message(inner) => deeper(inner, Value::Message),
        Value::List(items) => {
            let first = items.first().cloned();
            let mut found = match &first {
                Some(Value::Message(inner)) => {
                    deeper(inner, |inner| Value::List(vec![Value::Message(inner)]))
                }
                Some(_) | None => {
                    scalars(field).into_iter().map(|(w, v)| (vec![], w, Some(Value::List(vec![v])))).collect()
                }
            };
            if let Some(first) = first {
                found.push((vec![], "10,001 items", Some(Value::List(vec![first; 10_001]))));
            }
            found
        }
        _ => scalars(field).into_iter().map(|(what, value)| (vec![], what, Some(value))).collect(),
    };
    found.push((vec![], "left out", None));
    found
}

fn deeper(inner: &DynamicMessage, wrap: impl Fn(DynamicMessage) -> Value) -> Vec<Spoilt> {
    mutations(inner).into_iter().map(|m| (m.place, m.what, Some(wrap(m.message)))).collect()
}

fn spoil_absent(field: &FieldDescriptor) -> Vec<Spoilt> {
    if let Kind::Message(inner) = field.kind() {
        let empty = DynamicMessage::new(inner);
        let wrap = |m| if field.is_list() { Value::List(vec![Value::Message(m)]) } else { Value::Message(m) };
        return deeper(&empty, wrap);
    }
    let wrap = |v| if field.is_list() { Value::List(vec![v]) } else { v };
    scalars(field).into_iter().map(|(what, value)| (vec![], what, Some(wrap(value)))).collect()
}

/// Values a field of this kind should not have, or should survive.
fn scalars(field: &FieldDescriptor) -> Vec<(&'static str, Value)> {
    match field.kind() {
        Kind::String => vec![
            ("257 bytes", Value::String("x".repeat(257))),
            ("1,001 four-byte characters", Value::String("😀".repeat(1_001))),
            ("a NUL", Value::String("a\0b".into())),
            ("a line feed", Value::String("a\nb".into())),
            ("only spaces", Value::String("   ".into())),
            ("a path", Value::String("../../etc".into())),
            ("an id nobody has", Value::String("00000000-0000-7000-8000-00000000dead".into())),
        ],
        Kind::Bytes => [
            ("no JSON", b"{".to_vec()),
            ("not UTF-8", vec![b'"', 0xff, b'"']),
            ("a NUL", br#"{"a":"\u0000"}"#.to_vec()),
            ("half a surrogate pair", br#"{"a":"\ud800"}"#.to_vec()),
            ("one key twice", br#"{"a":1,"a":2}"#.to_vec()),
            ("too deep", "[".repeat(129).into_bytes()),
            ("far too deep", "[".repeat(10_000).into_bytes()),
            ("a float beyond all floats", b"1e400".to_vec()),
            ("an integer beyond 64 bits", b"18446744073709551616".to_vec()),
            ("an array", b"[]".to_vec()),
            ("a number", b"7".to_vec()),
            ("five MiB", vec![b' '; 5 << 20]),
            ("one MiB and more", format!("\"{}\"", "x".repeat(1_100_000)).into_bytes()),
        ]
        .into_iter()
        .map(|(what, bytes)| (what, Value::Bytes(bytes.into())))
        .collect(),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            [0, -1, i32::MIN, i32::MAX].into_iter().map(|n| ("a number at its end", Value::I32(n))).collect()
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            [0, -1, i64::MIN, i64::MAX].into_iter().map(|n| ("a number at its end", Value::I64(n))).collect()
        }
        Kind::Uint32 | Kind::Fixed32 => {
            [0, u32::MAX].into_iter().map(|n| ("a number at its end", Value::U32(n))).collect()
        }
        Kind::Uint64 | Kind::Fixed64 => {
            [0, u64::MAX, 1 << 63].into_iter().map(|n| ("a number at its end", Value::U64(n))).collect()
        }
        Kind::Enum(_) => {
            [-1, 99, i32::MAX].into_iter().map(|n| ("an unknown number", Value::EnumNumber(n))).collect()
        }
        Kind::Bool => vec![("true", Value::Bool(true))],
        Kind::Double | Kind::Float | Kind::Message(_) => Vec::new(),
    }
}
