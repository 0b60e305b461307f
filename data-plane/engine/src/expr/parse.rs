//! The parser: recursive descent, one level of recursion per level of nesting in the text.
//!
//! ```text
//! expr = or [ "?" or ":" expr ]          or  = and { "||" and }           and = cmp { "&&" cmp }
//! cmp  = add [ op add ]                  op  = "==" "!=" ">" ">=" "<" "<=" "in"
//! add  = mul { ("+"|"-") mul }           mul = unary { ("*"|"/") unary }  unary = ("!"|"-") unary | prim
//! prim = string | number | true | false | null | name "(" [expr {"," expr}] ")" | path | "{{" template "}}"
//!      | "(" expr ")" | "[" [expr {"," expr} [","]] "]"
//! ```

use orch8_model::{json, limits::EXPRESSION_BYTES_MAX};
use serde_json::Value;

use super::{
    BlockIds, SyntaxError,
    cursor::Cursor,
    error::shorten,
    function::Function,
    node::{Arithmetic, Comparison, Node},
    path::{Grammar, Path, is_narrow},
};
use crate::template::{Chain, Close, Text, closing};

/// Parses a whole text, with or without one pair of braces around it.
pub(crate) fn parse(text: &str, blocks: &BlockIds) -> Result<Node, SyntaxError> {
    let mut cursor = Cursor::new(text);
    cursor.space();
    if cursor.rest().starts_with("{{") {
        let open = cursor.at() + 2;
        if let Close::At(close) = closing(cursor.text(0, cursor.end()), open, true)
            && text[close + 2..].trim().is_empty()
        {
            cursor = cursor.part(open, close);
            cursor.space();
            // `{{= a }}` around a whole expression says the same.
            if !cursor.rest().starts_with("==") {
                cursor.eat("=");
            }
        }
    }
    parse_part(cursor, blocks)
}

/// Parses all of a cursor's text as one expression.
pub(crate) fn parse_part(cursor: Cursor<'_>, blocks: &BlockIds) -> Result<Node, SyntaxError> {
    let bytes = cursor.rest().len();
    if bytes > EXPRESSION_BYTES_MAX {
        let message = format!("an expression of {bytes} bytes, at most {EXPRESSION_BYTES_MAX} are allowed");
        return Err(cursor.error(message));
    }
    let mut parser = Parser { cursor, blocks };
    let node = parser.expression()?;
    match parser.cursor.peek() {
        None => Ok(node),
        Some('=') => Err(parser.cursor.error("unexpected '='; equality is '=='")),
        Some('|') => Err(parser.cursor.error("unexpected '|'; a filter stands in an inner {{template}}")),
        Some(_) => Err(parser.cursor.unexpected()),
    }
}

struct Parser<'s> {
    cursor: Cursor<'s>,
    blocks: &'s BlockIds,
}

type Parsed = Result<Node, SyntaxError>;

impl Parser<'_> {
    /// Every rule leaves the cursor behind trailing space.
    fn expression(&mut self) -> Parsed {
        let mut arms = Vec::new();
        let mut node = self.any()?;
        while self.eat("?") {
            let value = self.any()?;
            if !self.eat(":") {
                return Err(self.cursor.error("expected ':' of a conditional"));
            }
            arms.push((node, value));
            node = self.any()?;
        }
        Ok(if arms.is_empty() { node } else { Node::Choose(arms, Box::new(node)) })
    }

    fn any(&mut self) -> Parsed {
        let first = self.all()?;
        let rest = self.more("||", Self::all)?;
        Ok(joined(first, rest, Node::Any))
    }

    fn all(&mut self) -> Parsed {
        let first = self.comparison()?;
        let rest = self.more("&&", Self::comparison)?;
        Ok(joined(first, rest, Node::All))
    }

    fn more(&mut self, operator: &str, operand: fn(&mut Self) -> Parsed) -> Result<Vec<Node>, SyntaxError> {
        let mut rest = Vec::new();
        while self.eat(operator) {
            rest.push(operand(self)?);
        }
        Ok(rest)
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.addition()?;
        let Some(comparison) = self.comparison_operator() else { return Ok(left) };
        let right = self.addition()?;
        Ok(Node::Compare(comparison, Box::new((left, right))))
    }

    fn comparison_operator(&mut self) -> Option<Comparison> {
        const SIGNS: [(&str, Comparison); 6] = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            (">=", Comparison::AtLeast),
            (">", Comparison::Greater),
            ("<=", Comparison::AtMost),
            ("<", Comparison::Less),
        ];
        if let Some((_, comparison)) = SIGNS.iter().find(|(sign, _)| self.eat(sign)) {
            return Some(*comparison);
        }
        let word = self.cursor.rest().strip_prefix("in")?;
        if word.starts_with(is_narrow) {
            return None;
        }
        self.eat("in");
        Some(Comparison::In)
    }

    fn addition(&mut self) -> Parsed {
        self.left_to_right(Self::multiplication, [("+", Arithmetic::Plus), ("-", Arithmetic::Minus)])
    }

    fn multiplication(&mut self) -> Parsed {
        self.left_to_right(Self::unary, [("*", Arithmetic::Times), ("/", Arithmetic::Over)])
    }

    fn left_to_right(
        &mut self,
        operand: fn(&mut Self) -> Parsed,
        operators: [(&str, Arithmetic); 2],
    ) -> Parsed {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.eat(sign)) {
            rest.push((*operator, operand(self)?));
        }
        Ok(if rest.is_empty() { first } else { Node::Sum(Box::new(first), rest) })
    }

    fn unary(&mut self) -> Parsed {
        if self.eat("!") {
            return Ok(Node::Not(Box::new(self.nested(Self::unary)?)));
        }
        if self.eat("-") {
            return Ok(Node::Negative(Box::new(self.nested(Self::unary)?)));
        }
        let node = self.primary()?;
        self.cursor.space();
        Ok(node)
    }

    fn primary(&mut self) -> Parsed {
        self.cursor.space();
        match self.cursor.peek() {
            Some(quote @ ('"' | '\'')) => self.string(quote),
            Some('0'..='9') => self.number(),
            Some('(') => {
                self.eat("(");
                let node = self.nested(Self::expression)?;
                self.close(")")?;
                Ok(node)
            }
            Some('[') => {
                self.eat("[");
                self.list("]", true).map(Node::Array)
            }
            Some('{') if self.cursor.rest().starts_with("{{") => self.template(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.name(),
            Some(_) | None => Err(self.cursor.unexpected()),
        }
    }

    fn string(&mut self, quote: char) -> Parsed {
        let (from, to) = self.cursor.quoted(quote)?;
        let inner = self.cursor.part(from, to);
        if !inner.rest().contains("{{") {
            return Ok(Node::Literal(inner.rest().into()));
        }
        let blocks = self.blocks;
        self.cursor.nested(|cursor| Text::parse(cursor.part(from, to), blocks)).map(Node::Text)
    }

    fn number(&mut self) -> Parsed {
        let at = self.cursor.at();
        let rest = self.cursor.rest();
        // The longest prefix that may be one number: digits, a fraction, an exponent with its sign.
        let mut last = ' ';
        let len = rest
            .find(|c: char| {
                let goes_on = c.is_ascii_alphanumeric()
                    || matches!(c, '.' | '_')
                    || matches!(c, '+' | '-') && matches!(last, 'e' | 'E');
                last = c;
                !goes_on
            })
            .unwrap_or(rest.len());
        self.cursor.skip(len);
        match json::parse_number(&rest[..len]) {
            Some(number) => Ok(Node::Literal(Value::Number(number))),
            None => Err(self
                .cursor
                .error_at(at, format!("'{}' is not a number, or out of range", shorten(&rest[..len])))),
        }
    }

    fn template(&mut self) -> Parsed {
        let open = self.cursor.at() + 2;
        match closing(self.cursor.text(0, self.cursor.end()), open, true) {
            Close::At(close) => {
                let blocks = self.blocks;
                let chain = self.cursor.nested(|cursor| Chain::parse(cursor.part(open, close), blocks))?;
                self.cursor = self.cursor.part(close + 2, self.cursor.end());
                Ok(Node::Template(Box::new(chain)))
            }
            Close::Reopened(_) | Close::Never => Err(self.cursor.error("'{{' is never closed")),
        }
    }

    /// A word, a call or a path.
    fn name(&mut self) -> Parsed {
        let start = self.cursor.at();
        let word = self.cursor.take(is_narrow);
        if let Some(value) = keyword(word) {
            return value.map(Node::Literal).ok_or_else(|| self.cursor.error_at(start, "unexpected 'in'"));
        }
        self.cursor.space();
        if self.cursor.rest().starts_with('(') {
            return self.call(start, word);
        }
        self.cursor = self.cursor.part(start, self.cursor.end());
        self.path().map(Node::Path)
    }

    fn path(&mut self) -> Result<Path, SyntaxError> {
        Path::parse(&mut self.cursor, Grammar::Expression, self.blocks)
    }

    fn call(&mut self, start: usize, name: &str) -> Parsed {
        self.eat("(");
        if name == "exists" {
            let at = self.cursor.at();
            let arguments = self.list(")", false)?;
            return match <[Node; 1]>::try_from(arguments) {
                Ok([Node::Path(path)]) => Ok(Node::Exists(path)),
                Ok(_) | Err(_) => Err(self.cursor.error_at(at, "exists() takes one path")),
            };
        }
        let Some(function) = Function::named(name) else {
            return Err(self.cursor.error_at(start, format!("unknown function '{}'", shorten(name))));
        };
        let arguments = self.list(")", false)?;
        let (least, most) = function.arity();
        if (least..=most).contains(&arguments.len()) {
            return Ok(Node::Call(function, arguments));
        }
        let wants = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let message = format!("{name}() takes {wants} arguments, not {}", arguments.len());
        Err(self.cursor.error_at(start, message))
    }

    /// Expressions up to `end`, separated by commas.
    fn list(&mut self, end: &str, trailing_comma: bool) -> Result<Vec<Node>, SyntaxError> {
        let mut nodes = Vec::new();
        if self.eat(end) {
            return Ok(nodes);
        }
        loop {
            nodes.push(self.nested(Self::expression)?);
            if !self.eat(",") {
                self.close(end)?;
                return Ok(nodes);
            }
            if trailing_comma && self.eat(end) {
                return Ok(nodes);
            }
        }
    }

    fn close(&mut self, end: &str) -> Result<(), SyntaxError> {
        if self.eat(end) { Ok(()) } else { Err(self.cursor.error(format!("expected '{end}'"))) }
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Parsed) -> Parsed {
        self.cursor.enter()?;
        let node = inner(self);
        self.cursor.leave();
        node
    }

    /// Takes a sign and the space around it.
    fn eat(&mut self, sign: &str) -> bool {
        self.cursor.space();
        let hit = self.cursor.eat(sign);
        if hit {
            self.cursor.space();
        }
        hit
    }
}

/// `true`, `false`, `null`; `Some(None)` for the operator `in`, which is no operand.
fn keyword(word: &str) -> Option<Option<Value>> {
    match word {
        "true" => Some(Some(Value::Bool(true))),
        "false" => Some(Some(Value::Bool(false))),
        "null" => Some(Some(Value::Null)),
        "in" => Some(None),
        _ => None,
    }
}

fn joined(first: Node, mut rest: Vec<Node>, join: fn(Vec<Node>) -> Node) -> Node {
    if rest.is_empty() {
        return first;
    }
    rest.insert(0, first);
    join(rest)
}
