//! The printer: compact text, floats with the digits of ECMAScript, keys as they arrived or sorted.

use serde_json::{Number, Value};

/// Prints a value: compact, arrival order, digits kept; a float as ECMAScript prints it, with `.0` when it has
/// neither `.` nor `e`.
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    write(value, false, &mut out);
    out
}

/// The canonical text: as [`print()`], with keys sorted by UTF-16 units. What content hashes are made of.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, true, &mut out);
    out
}

/// Bytes of the [`print()`]ed text, without making it.
pub fn size(value: &Value) -> usize {
    let mut count = Count(0);
    write(value, false, &mut count);
    count.0
}

/// Where text goes.
trait Sink {
    fn text(&mut self, text: &str);
}

impl Sink for String {
    fn text(&mut self, text: &str) {
        self.push_str(text);
    }
}

struct Count(usize);

impl Sink for Count {
    fn text(&mut self, text: &str) {
        self.0 += text.len();
    }
}

/// Recurses once per level; accepted values have at most 128.
fn write(value: &Value, sorted: bool, out: &mut impl Sink) {
    match value {
        Value::Null => out.text("null"),
        Value::Bool(true) => out.text("true"),
        Value::Bool(false) => out.text("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.text("[");
            for (i, item) in items.iter().enumerate() {
                out.text(if i == 0 { "" } else { "," });
                write(item, sorted, out);
            }
            out.text("]");
        }
        Value::Object(map) => {
            out.text("{");
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            if sorted {
                members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            }
            for (i, (key, item)) in members.into_iter().enumerate() {
                out.text(if i == 0 { "" } else { "," });
                write_string(key, out);
                out.text(":");
                write(item, sorted, out);
            }
            out.text("}");
        }
    }
}

fn write_string(text: &str, out: &mut impl Sink) {
    out.text("\"");
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x0c => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.text(&text[from..at]);
        if short.is_empty() {
            out.text(&format!("\\u{byte:04x}"));
        } else {
            out.text(short);
        }
        from = at + 1;
    }
    out.text(&text[from..]);
    out.text("\"");
}

fn write_number(number: &Number, out: &mut impl Sink) {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(int), _, _) => write_digits(int, out),
        (None, Some(int), _) => {
            out.text("-");
            write_digits(int.unsigned_abs(), out);
        }
        (None, None, Some(float)) => write_float(float, out),
        // Not without the arbitrary-precision feature of serde_json.
        (None, None, None) => out.text(&number.to_string()),
    }
}

/// Without an allocation: long arrays of integers are what is printed and measured most.
fn write_digits(mut int: u64, out: &mut impl Sink) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (int % 10) as u8;
        int /= 10;
        if int == 0 {
            break;
        }
    }
    out.text(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// ECMA-262 `Number::toString`: n is the place of the decimal point relative to the first of the shortest digits that
/// read back as the same number.
fn write_float(float: f64, out: &mut impl Sink) {
    if float.is_sign_negative() {
        out.text("-");
    }
    let shortest = format!("{:e}", float.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = mantissa.replace('.', "");
    let n = exponent.parse::<i32>().unwrap_or_default() + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let k = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    match usize::try_from(n) {
        Ok(_) if k <= n && n <= 21 => {
            out.text(&digits);
            out.text(&zeros(n - k));
            out.text(".0");
        }
        Ok(whole) if 0 < n && n <= 21 => {
            out.text(&digits[..whole]);
            out.text(".");
            out.text(&digits[whole..]);
        }
        _ if -6 < n && n <= 0 => {
            out.text("0.");
            out.text(&zeros(-n));
            out.text(&digits);
        }
        _ => {
            out.text(mantissa);
            out.text(if n > 0 { "e+" } else { "e-" });
            out.text(&(n - 1).abs().to_string());
        }
    }
}
