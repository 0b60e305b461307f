//! The reader: one pass over the bytes, an explicit stack instead of recursion, every rule checked where it breaks.

use std::mem;

use serde_json::{Map, Value};

use super::{
    JsonProblem, Pointer,
    number::{NumberFlaw, token_len, value_of},
};
use crate::fault::Reason;

/// Reads one text whose containers nest at most `depth_max` deep.
pub(super) fn read(bytes: &[u8], depth_max: usize) -> Result<Value, JsonProblem> {
    let (text, broken_at) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        // The good part is read all the same: it tells where in the document the bad byte stands.
        Err(e) => {
            let good = e.valid_up_to();
            (std::str::from_utf8(&bytes[..good]).unwrap_or_default(), Some(good))
        }
    };
    let mut reader = Reader { text, at: 0, open: Vec::new(), depth_max };
    match (reader.document(), broken_at) {
        (Ok(value), None) => Ok(value),
        (Ok(_), Some(good)) => Err(reader.problem(Stop::invalid(good, "is not UTF-8"))),
        (Err(stop), Some(good)) if stop.at >= good => {
            Err(reader.problem(Stop { place: stop.place, ..Stop::invalid(good, "is not UTF-8") }))
        }
        (Err(stop), _) => Err(reader.problem(stop)),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    open: Vec<Open>,
    depth_max: usize,
}

/// A container that has begun and not ended.
enum Open {
    Array(Vec<Value>),
    /// `key`: the member whose value comes next.
    Object {
        map: Map<String, Value>,
        key: String,
    },
}

/// Where reading stopped, and why.
struct Stop {
    reason: Reason,
    at: usize,
    place: Place,
    message: String,
}

/// Which value a [`Stop`] is about.
enum Place {
    /// The value that was about to be read.
    Value,
    /// The container around it.
    Container,
    /// A member of that container.
    Member(String),
}

impl Stop {
    fn new(reason: Reason, at: usize, message: impl Into<String>) -> Self {
        Self { reason, at, place: Place::Value, message: message.into() }
    }

    fn invalid(at: usize, message: impl Into<String>) -> Self {
        Self::new(Reason::InvalidJson, at, message)
    }

    fn of(mut self, place: Place) -> Self {
        self.place = place;
        self
    }
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Value, Stop> {
        if self.text.starts_with('\u{feff}') {
            return Err(Stop::invalid(0, "begins with a byte order mark"));
        }
        loop {
            self.space();
            if let Some(value) = self.begin()?
                && let Some(root) = self.end(value)?
            {
                return Ok(root);
            }
        }
    }

    /// Reads a scalar or an empty container, or opens a container and answers `None`.
    fn begin(&mut self) -> Result<Option<Value>, Stop> {
        match self.peek() {
            Some(b'[') => {
                self.descend()?;
                if self.eat(b']') {
                    return Ok(Some(Value::Array(Vec::new())));
                }
                self.open.push(Open::Array(Vec::new()));
                Ok(None)
            }
            Some(b'{') => {
                self.descend()?;
                if self.eat(b'}') {
                    return Ok(Some(Value::Object(Map::new())));
                }
                self.open.push(Open::Object { map: Map::new(), key: String::new() });
                self.key()?;
                Ok(None)
            }
            Some(b'"') => self.string().map(|text| Some(Value::String(text))),
            Some(b'-' | b'0'..=b'9') => self.number().map(Some),
            Some(b't') => self.word("true", Value::Bool(true)).map(Some),
            Some(b'f') => self.word("false", Value::Bool(false)).map(Some),
            Some(b'n') => self.word("null", Value::Null).map(Some),
            Some(_) => Err(Stop::invalid(self.at, "expected a value")),
            None => Err(Stop::invalid(self.at, "ends where a value is expected")),
        }
    }

    /// Puts a complete value where it belongs and closes what ends with it. `Some`: the document is complete.
    fn end(&mut self, mut value: Value) -> Result<Option<Value>, Stop> {
        loop {
            self.space();
            let (text, at) = (self.text, self.at);
            let next = text.as_bytes().get(at).copied();
            let expected = match self.open.last_mut() {
                None if next.is_none() => return Ok(Some(value)),
                None => return Err(Stop::invalid(at, "has text after its end")),
                Some(Open::Array(items)) => {
                    items.push(value);
                    "',' or ']'"
                }
                Some(Open::Object { map, key }) => {
                    map.insert(mem::take(key), value);
                    "',' or '}'"
                }
            };
            let in_object = expected.ends_with("}'");
            match next {
                Some(b',') => {
                    self.at += 1;
                    if in_object {
                        self.space();
                        self.key()?;
                    }
                    return Ok(None);
                }
                Some(b']') if !in_object => {}
                Some(b'}') if in_object => {}
                _ => return Err(Stop::invalid(at, format!("expected {expected}")).of(Place::Container)),
            }
            self.at += 1;
            value = match self.open.pop() {
                Some(Open::Array(items)) => Value::Array(items),
                Some(Open::Object { map, .. }) => Value::Object(map),
                None => return Err(Stop::invalid(at, "has text after its end")),
            };
        }
    }

    /// Steps into a container: the bound comes before the stack grows.
    fn descend(&mut self) -> Result<(), Stop> {
        if self.open.len() >= self.depth_max {
            let message = format!("is nested deeper than {} levels", self.depth_max);
            return Err(Stop::new(Reason::JsonDepth, self.at, message));
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    /// Reads `"key":` into the innermost object.
    fn key(&mut self) -> Result<(), Stop> {
        let at = self.at;
        if self.peek() != Some(b'"') {
            return Err(Stop::invalid(at, "expected a key").of(Place::Container));
        }
        let name = self.string().map_err(|stop| stop.of(Place::Container))?;
        if let Some(Open::Object { map, key }) = self.open.last_mut() {
            if map.contains_key(&name) {
                return Err(Stop::new(
                    Reason::JsonDuplicateKey,
                    at,
                    "is a key that stands twice in one object",
                )
                .of(Place::Member(name)));
            }
            *key = name;
        }
        self.space();
        if self.eat(b':') { Ok(()) } else { Err(Stop::invalid(self.at, "expected ':' after the key")) }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Stop> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(Stop::invalid(self.at, "expected a value"))
    }

    fn number(&mut self) -> Result<Value, Stop> {
        let at = self.at;
        let Some(len) = token_len(&self.text.as_bytes()[at..]) else {
            return Err(Stop::invalid(at, "is not a number"));
        };
        self.at += len;
        value_of(&self.text[at..self.at]).map(Value::Number).map_err(|flaw| match flaw {
            NumberFlaw::Syntax => Stop::invalid(at, "is not a number"),
            NumberFlaw::IntegerRange => {
                Stop::new(Reason::JsonNumber, at, "is an integer outside -2^63 to 2^64-1")
            }
            NumberFlaw::FloatRange => {
                Stop::new(Reason::JsonNumber, at, "is a number that overflows a double")
            }
        })
    }

    /// Reads a string, from its opening to behind its closing quote.
    fn string(&mut self) -> Result<String, Stop> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let from = self.at;
            let plain = self.text.as_bytes()[from..]
                .iter()
                .position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))
                .unwrap_or(self.text.len() - from);
            self.at += plain;
            out.push_str(&self.text[from..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(0) => return Err(nul(self.at)),
                Some(_) => return Err(Stop::invalid(self.at, "holds an unescaped control character")),
                None => return Err(Stop::invalid(self.at, "is a string that does not end")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Stop> {
        let at = self.at;
        let code = self.text.as_bytes().get(at + 1).copied();
        self.at += 2;
        match code {
            Some(plain @ (b'"' | b'\\' | b'/')) => Ok(char::from(plain)),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => self.unicode(at),
            Some(_) | None => Err(Stop::invalid(at, "holds an unknown escape")),
        }
    }

    /// `at`: where the escape began.
    fn unicode(&mut self, at: usize) -> Result<char, Stop> {
        let lone = || Stop::invalid(at, "holds a lone surrogate escape");
        let first = self.hex4(at)?;
        let code = match first {
            0 => return Err(nul(at)),
            0xd800..=0xdbff => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(lone());
                }
                self.at += 2;
                match self.hex4(at)? {
                    low @ 0xdc00..=0xdfff => 0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00),
                    _ => return Err(lone()),
                }
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(lone)
    }

    fn hex4(&mut self, at: usize) -> Result<u32, Stop> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let code = digits.and_then(|digits| {
            digits.iter().try_fold(0, |code, digit| Some(code << 4 | char::from(*digit).to_digit(16)?))
        });
        self.at += 4;
        code.ok_or_else(|| Stop::invalid(at, "holds an escape without four hexadecimal digits"))
    }

    fn space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    fn problem(&self, stop: Stop) -> JsonProblem {
        let last = match stop.place {
            Place::Value => self.open.len(),
            Place::Container | Place::Member(_) => self.open.len().saturating_sub(1),
        };
        let mut pointer = Pointer::default();
        for open in &self.open[..last] {
            match open {
                Open::Array(items) => pointer.push(&items.len().to_string()),
                Open::Object { key, .. } => pointer.push(key),
            }
        }
        if let Place::Member(name) = &stop.place {
            pointer.push(name);
        }
        JsonProblem { reason: stop.reason, pointer: pointer.finish(), offset: stop.at, message: stop.message }
    }
}

fn nul(at: usize) -> Stop {
    Stop::new(Reason::JsonNul, at, "holds the character U+0000")
}
