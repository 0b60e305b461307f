//! A whole document: its own fields, its blocks in two passes, and the program they make.

use orch8_model::{Millis, NameProblem, Namespace, SequenceId, SequenceName, TenantId, parse_instant};
use serde_json::Value;

use super::{
    Label, Problem, Published, code,
    composite::{self, ITEM_VAR},
    object::Object,
    outline::{Entry, Form, Outline, survey},
    report::{Report, quote},
    shape,
    step::always_fails,
    texts::Texts,
};
use crate::program::{Block, Body, Kind, Program};

/// Checks a parsed document. Errors: everything that is wrong.
pub(super) fn check(value: &Value) -> Result<Published, Vec<Problem>> {
    let mut report = Report::default();
    let published = read(value, &mut report);
    if published.is_none() {
        // A part that could not be read was reported where it stands; this line only keeps that promise.
        report.problem_if_none("the document cannot be read");
    }
    let warnings = report.close()?;
    Ok(Published { warnings, ..published.ok_or_else(Vec::new)? })
}

fn read(value: &Value, report: &mut Report) -> Option<Published> {
    let root = Object::open(value, &shape::ROOT, String::new(), report)?;
    let id = id(&root, report);
    let tenant_id = named(&root, "tenant_id", TenantId::parse, report);
    let namespace = match root.get("namespace") {
        None => Some(Namespace::default_namespace()),
        Some(_) => required(&root, "namespace", Namespace::parse, report),
    };
    let name = required(&root, "name", SequenceName::parse, report);
    let version = root.optional("version").and_then(|_| root.integer("version", 1..=VERSION_MAX, report));
    let label = Label::ALL[root.word("status", &Label::ALL.map(Label::as_str), report)];
    let deprecated = root.flag("deprecated", false, report) || label == Label::Unpublished;
    let created_at = created_at(&root, report);
    let outline = survey(&root, report);
    let program = program(outline, report);
    Some(Published {
        program: program?,
        id,
        tenant_id: tenant_id.map(String::from),
        namespace: namespace?,
        name: name?,
        version: version.and_then(|version| i32::try_from(version).ok()),
        deprecated,
        label,
        created_at,
        warnings: Vec::new(),
    })
}

/// Versions are 32-bit signed on the wire.
const VERSION_MAX: u32 = i32::MAX.unsigned_abs();

fn id(root: &Object<'_>, report: &mut Report) -> Option<SequenceId> {
    let id = SequenceId::parse(root.text("id", report)?);
    if id.is_none() {
        root.invalid("id", "must be a UUID", report);
    }
    id
}

fn created_at(root: &Object<'_>, report: &mut Report) -> Option<Millis> {
    match parse_instant(root.text("created_at", report)?) {
        Ok(at) => Some(at),
        Err(problem) => {
            root.invalid("created_at", problem, report);
            None
        }
    }
}

fn required<T>(
    root: &Object<'_>,
    key: &str,
    parse: impl Fn(&str) -> Result<T, NameProblem>,
    report: &mut Report,
) -> Option<T> {
    let text = root.required_text(key, report)?;
    parse(text).map_err(|problem| root.invalid(key, problem, report)).ok()
}

fn named<T>(
    root: &Object<'_>,
    key: &str,
    parse: impl Fn(&str) -> Result<T, NameProblem>,
    report: &mut Report,
) -> Option<T> {
    root.optional(key)?;
    required(root, key, parse, report)
}

/// The second pass: the fields of every block, now that all ids are known. `None`: something was reported.
fn program(outline: Outline<'_>, report: &mut Report) -> Option<Program> {
    let kinds: Vec<Option<Kind>> =
        outline.blocks.iter().map(|entry| composite::read(entry, &texts(&outline, entry), report)).collect();
    let kinds: Vec<Kind> = kinds.into_iter().collect::<Option<_>>()?;
    let Outline { blocks, bodies, by_id, ids } = outline;
    warn_of_unreachable(&bodies, &blocks, &kinds, report);
    let blocks = blocks.into_iter().zip(kinds).map(|(entry, kind)| {
        let Entry { id, body, position, path, loops, .. } = entry;
        Block { id, body, position, path, loops, kind }
    });
    Some(Program { blocks: blocks.collect(), bodies, by_id, ids })
}

fn texts<'a>(outline: &'a Outline<'_>, entry: &'a Entry<'_>) -> Texts<'a> {
    let enclosing = entry.loops.iter().map(|ix| &outline.blocks[ix.0 as usize]);
    let for_eachs = enclosing.filter(|entry| matches!(entry.form, Form::ForEach { .. }));
    let item_var = |entry: &'a Entry<'_>| entry.object.get("item_var").map_or(Some(ITEM_VAR), Value::as_str);
    Texts { ids: &outline.ids, item_vars: for_eachs.filter_map(item_var).collect() }
}

fn warn_of_unreachable(bodies: &[Body], blocks: &[Entry<'_>], kinds: &[Kind], report: &mut Report) {
    let fails = |kind: &Kind| matches!(kind, Kind::Step(step) if always_fails(step));
    for body in bodies {
        let fatal = body.blocks.iter().position(|ix| fails(&kinds[ix.0 as usize]));
        let Some(fatal) = fatal else { continue };
        if let Some(next) = body.blocks.get(fatal + 1) {
            let id = &blocks[body.blocks[fatal].0 as usize].id;
            let message = format!("never reached: {} before it always fails", quote(id));
            report.warn(code::UNREACHABLE_BLOCKS, blocks[next.0 as usize].object.place.as_str(), message);
        }
    }
}
