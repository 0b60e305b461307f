//! Expressions and templates of one block: parsed with the ids of the whole document, reported with their position.

use orch8_model::{
    Reason,
    limits::{EXPRESSION_BYTES_MAX, TEMPLATE_BYTES_MAX},
};
use serde_json::Value;

use super::{
    code,
    object::Object,
    report::{Report, element, member},
};
use crate::{
    expr::{BlockIds, Expr, SyntaxError},
    template::Template,
};

/// Text that asks for a stored secret; the whole string or its beginning.
const CREDENTIAL_SCHEME: &str = "credentials://";

/// What the texts of one block may refer to.
#[derive(Debug)]
pub(super) struct Texts<'a> {
    pub ids: &'a BlockIds,
    /// Item variables of the enclosing for_eachs: roots here, though no roots of the language.
    pub item_vars: Vec<&'a str>,
}

impl Texts<'_> {
    /// An expression that must be there.
    pub(super) fn required(&self, object: &Object<'_>, key: &str, report: &mut Report) -> Option<Expr> {
        let text = object.required_text(key, report)?;
        self.expression(text, object.spelt(key), &object.at(key), report)
    }

    /// An expression that may be absent.
    pub(super) fn optional(&self, object: &Object<'_>, key: &str, report: &mut Report) -> Option<Expr> {
        let text = object.text(key, report)?;
        self.expression(text, object.spelt(key), &object.at(key), report)
    }

    /// Parses an expression. A syntax error is a problem.
    pub(super) fn expression(
        &self,
        text: &str,
        field: &str,
        place: &str,
        report: &mut Report,
    ) -> Option<Expr> {
        if text.trim().is_empty() {
            report.invalid(place, format!("{field} must not be blank"));
            return None;
        }
        match self.parse(text, field, place, report)? {
            Ok(expr) => Some(expr),
            Err(error) => {
                syntax(field, place, &error, report);
                None
            }
        }
    }

    /// Parses `when`: blank is falsy, and a syntax error is kept for the run.
    pub(super) fn when(&self, object: &Object<'_>, report: &mut Report) -> Option<Result<Expr, SyntaxError>> {
        let text = object.text("when", report)?;
        let text = if text.trim().is_empty() { "false" } else { text };
        let parsed = self.parse(text, "when", &object.at("when"), report)?;
        if let Err(error) = &parsed {
            let message = format!("when {}; the step will fail with EXPRESSION_SYNTAX", position(error));
            report.warn(code::WHEN_SYNTAX, object.at("when"), message);
        }
        Some(parsed)
    }

    fn parse(
        &self,
        text: &str,
        field: &str,
        place: &str,
        report: &mut Report,
    ) -> Option<Result<Expr, SyntaxError>> {
        if text.len() > EXPRESSION_BYTES_MAX {
            report.too_large(place, field, text.len(), EXPRESSION_BYTES_MAX, "bytes");
            return None;
        }
        let parsed = Expr::parse(text, self.ids);
        if let Ok(expr) = &parsed {
            for (code, message) in expr.notes(self.ids, &self.item_vars) {
                report.warn(code, place, format!("{field}: {message}"));
            }
        }
        Some(parsed)
    }

    /// The collection of a for_each: a path, or a template when it holds `{{`.
    pub(super) fn collection(&self, object: &Object<'_>, report: &mut Report) -> Option<Template> {
        let text = object.required_text("collection", report)?;
        let place = object.at("collection");
        if text.trim().is_empty() {
            object.invalid("collection", "must not be blank", report);
            return None;
        }
        if text.contains("{{") {
            return self.template(&Value::String(text.to_owned()), "collection", &place, report);
        }
        if text.len() > EXPRESSION_BYTES_MAX {
            report.too_large(&place, "collection", text.len(), EXPRESSION_BYTES_MAX, "bytes");
            return None;
        }
        let template = Template::collection(text, self.ids);
        let template = template.map_err(|error| syntax("collection", &place, &error, report)).ok()?;
        self.warn_of(&template, &place, report);
        Some(template)
    }

    /// Compiles the templates in a value; `place` is the value's pointer.
    pub(super) fn template(
        &self,
        value: &Value,
        field: &str,
        place: &str,
        report: &mut Report,
    ) -> Option<Template> {
        let mut literals = Literals { place, trail: Vec::new(), report: &mut *report, pass: true };
        literals.walk(value);
        if !literals.pass {
            return None;
        }
        match Template::compile(value, self.ids) {
            Ok(template) => {
                self.warn_of(&template, place, report);
                Some(template)
            }
            Err(problems) => {
                for problem in problems {
                    syntax(field, &format!("{place}{}", problem.pointer), &problem.error, report);
                }
                None
            }
        }
    }

    fn warn_of(&self, template: &Template, place: &str, report: &mut Report) {
        for (code, pointer, message) in template.warnings_within(self.ids, &self.item_vars) {
            report.warn(code, format!("{place}{pointer}"), message);
        }
    }
}

/// Whether a value holds a template, so that only the run can tell what it is.
pub(super) fn is_dynamic(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains("{{"))
}

fn syntax(field: &str, place: &str, error: &SyntaxError, report: &mut Report) {
    report.problem(Reason::ExpressionSyntax.as_str(), place, format!("{field} {}", position(error)));
}

fn position(error: &SyntaxError) -> String {
    let SyntaxError { message, offset, line, column } = error;
    format!("does not parse: {message} (byte {offset}, line {line}, column {column})")
}

/// Checks every string of a templated value; every break of a rule is reported. Pointers are made only for those: with
/// long keys above many values, making all of them would be quadratic.
struct Literals<'v, 'r> {
    place: &'v str,
    trail: Vec<Segment<'v>>,
    report: &'r mut Report,
    pass: bool,
}

enum Segment<'v> {
    Key(&'v str),
    Index(usize),
}

impl<'v> Literals<'v, '_> {
    fn walk(&mut self, value: &'v Value) {
        match value {
            Value::String(text) => self.judge(text),
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.inside(Segment::Index(i), item);
                }
            }
            Value::Object(map) => {
                for (key, item) in map {
                    self.inside(Segment::Key(key), item);
                }
            }
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    fn inside(&mut self, segment: Segment<'v>, value: &'v Value) {
        self.trail.push(segment);
        self.walk(value);
        self.trail.pop();
    }

    fn judge(&mut self, text: &str) {
        if text.starts_with(CREDENTIAL_SCHEME) {
            let remedy = "let the worker read the secret where it runs";
            let message = format!("{CREDENTIAL_SCHEME} is not in this version: {remedy}");
            self.report.problem(code::NOT_IN_THIS_VERSION, self.pointer(), message);
            self.pass = false;
        } else if text.len() > TEMPLATE_BYTES_MAX && text.contains("{{") {
            let place = self.pointer();
            self.report.too_large(&place, "a template", text.len(), TEMPLATE_BYTES_MAX, "bytes");
            self.pass = false;
        }
    }

    fn pointer(&self) -> String {
        self.trail.iter().fold(self.place.to_owned(), |place, segment| match segment {
            Segment::Key(key) => member(&place, key),
            Segment::Index(i) => element(&place, *i),
        })
    }
}
