//! A good message, spoilt in one place at a time.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

/// A spoilt message.
pub struct Mutation {
    /// Field names from the root to the spoilt place.
    pub place: Vec<String>,
    pub what: &'static str,
    /// No field of this kind may take it.
    pub never: bool,
    pub message: DynamicMessage,
}

/// Every way to spoil it.
pub fn mutations(message: &DynamicMessage) -> Vec<Mutation> {
    let mut found = Vec::new();
    for field in message.descriptor().fields() {
        let spoilt = match message.has_field(&field) {
            true => spoil_present(message, &field),
            false => spoil_absent(&field),
        };
        for Spoilt { mut place, what, never, value } in spoilt {
            place.insert(0, field.name().to_owned());
            if let Some(oneof) = field.containing_oneof() {
                place.push(oneof.name().to_owned());
            }
            let mut copy = message.clone();
            match value {
                Some(value) => copy.set_field(&field, value),
                None => copy.clear_field(&field),
            }
            found.push(Mutation { place, what, never, message: copy });
        }
    }
    found
}

/// One field, spoilt; `None` leaves it out.
struct Spoilt {
    place: Vec<String>,
    what: &'static str,
    never: bool,
    value: Option<Value>,
}

impl Spoilt {
    fn here((what, never, value): Bad) -> Self {
        Self { place: Vec::new(), what, never, value: Some(value) }
    }

    fn wrapped(self, wrap: impl Fn(Value) -> Value) -> Self {
        Self { value: self.value.map(wrap), ..self }
    }
}

fn spoil_present(message: &DynamicMessage, field: &FieldDescriptor) -> Vec<Spoilt> {
    let mut found = match message.get_field(field).into_owned() {
        Value::Message(inner) => deeper(&inner),
        Value::List(items) => {
            let first = items.first().cloned();
            let each = match &first {
                Some(Value::Message(inner)) => deeper(inner),
                Some(_) | None => scalars(field).into_iter().map(Spoilt::here).collect(),
            };
            let mut found: Vec<_> = each.into_iter().map(|s| s.wrapped(|v| Value::List(vec![v]))).collect();
            found.extend(first.map(crowd));
            found
        }
        _ => scalars(field).into_iter().map(Spoilt::here).collect(),
    };
    found.push(Spoilt { place: Vec::new(), what: "left out", never: false, value: None });
    found
}

fn spoil_absent(field: &FieldDescriptor) -> Vec<Spoilt> {
    let (found, one) = match field.kind() {
        Kind::Message(inner) => {
            let empty = DynamicMessage::new(inner);
            (deeper(&empty), Value::Message(empty))
        }
        kind => (scalars(field).into_iter().map(Spoilt::here).collect(), Value::default_value(&kind)),
    };
    if !field.is_list() {
        return found;
    }
    let mut found: Vec<_> = found.into_iter().map(|s| s.wrapped(|v| Value::List(vec![v]))).collect();
    found.push(crowd(one));
    found
}

fn deeper(inner: &DynamicMessage) -> Vec<Spoilt> {
    let spoilt = |m: Mutation| Spoilt {
        place: m.place,
        what: m.what,
        never: m.never,
        value: Some(Value::Message(m.message)),
    };
    mutations(inner).into_iter().map(spoilt).collect()
}

/// More items than any list may have.
fn crowd(item: Value) -> Spoilt {
    Spoilt::here(("10,001 items", true, Value::List(vec![item; 10_001])))
}

/// What it is, whether no field may take it, the value.
type Bad = (&'static str, bool, Value);

/// Values a field of this kind should not have, or should survive.
fn scalars(field: &FieldDescriptor) -> Vec<Bad> {
    match field.kind() {
        Kind::String => strings(),
        Kind::Bytes => payloads(field.parent_message().name() == "Payload"),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => [0, -1, i32::MIN, i32::MAX, 2_000_000_000]
            .into_iter()
            .map(|n| ("a number at its end", of_a_timestamp(field) && n != 0, Value::I32(n)))
            .collect(),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => [0, -1, i64::MIN, i64::MAX]
            .into_iter()
            .map(|n| {
                let out = of_a_timestamp(field) && n.unsigned_abs() > 1;
                ("a number at its end", out, Value::I64(n))
            })
            .collect(),
        Kind::Uint32 | Kind::Fixed32 => {
            [0, u32::MAX].into_iter().map(|n| ("a number at its end", false, Value::U32(n))).collect()
        }
        Kind::Uint64 | Kind::Fixed64 => [0, 1 << 63, u64::MAX]
            .into_iter()
            .map(|n| ("a number at its end", false, Value::U64(n)))
            .collect(),
        Kind::Enum(_) => [-1, 99, i32::MIN, i32::MAX]
            .into_iter()
            .map(|n| ("an unknown number", true, Value::EnumNumber(n)))
            .collect(),
        Kind::Bool => vec![("true", false, Value::Bool(true))],
        Kind::Double | Kind::Float | Kind::Message(_) => Vec::new(),
    }
}

/// Its seconds may be few, and its nanoseconds none; what else is tried here is no instant.
fn of_a_timestamp(field: &FieldDescriptor) -> bool {
    field.parent_message().full_name() == "google.protobuf.Timestamp"
}

fn strings() -> Vec<Bad> {
    [
        ("257 bytes", false, "x".repeat(257)),
        ("1,001 four-byte characters", false, "😀".repeat(1_001)),
        ("a NUL", true, "a\0b".to_owned()),
        ("a line feed", false, "a\nb".to_owned()),
        ("only spaces", false, "   ".to_owned()),
        ("a path", false, "../../etc".to_owned()),
        ("a content type", false, "text/html".to_owned()),
        ("another tenant", false, "other".to_owned()),
        ("an id nobody has", false, "00000000-0000-7000-8000-00000000dead".to_owned()),
        ("five MiB", true, "x".repeat(5 << 20)),
    ]
    .map(|(what, never, text)| (what, never, Value::String(text)))
    .into()
}

/// Objects with one thing wrong in them, so that what is refused is that thing; then other kinds, and sizes. Bytes that are no payload may be left out.
fn payloads(required: bool) -> Vec<Bad> {
    let nested = |depth: usize| [br#"{"a":"#.to_vec(), vec![b'['; depth], vec![b']'; depth], b"}".to_vec()];
    [
        ("no bytes", required, Vec::new()),
        ("no JSON", true, b"{".to_vec()),
        ("two values", true, b"{}{}".to_vec()),
        ("not UTF-8", true, b"{\"a\":\"\xff\"}".to_vec()),
        ("a NUL", true, br#"{"a":"\u0000"}"#.to_vec()),
        ("a bare NUL", true, b"{}\0".to_vec()),
        ("half a surrogate pair", true, br#"{"a":"\ud800"}"#.to_vec()),
        ("one key twice", true, br#"{"a":1,"a":2}"#.to_vec()),
        ("too deep", true, nested(128).concat()),
        ("far too deep", true, nested(10_000).concat()),
        ("a float beyond all floats", true, br#"{"a":1e400}"#.to_vec()),
        ("an integer beyond 64 bits", true, br#"{"a":18446744073709551616}"#.to_vec()),
        ("no object but an array", false, b"[]".to_vec()),
        ("no object but a number", false, b"7".to_vec()),
        ("no object but null", false, b"null".to_vec()),
        ("one MiB and more", true, format!("{{\"a\":\"{}\"}}", "x".repeat(1_100_000)).into_bytes()),
        ("five MiB", true, vec![b' '; 5 << 20]),
    ]
    .map(|(what, never, bytes)| (what, never, Value::Bytes(bytes.into())))
    .into()
}
