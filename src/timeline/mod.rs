//! A run as a tree one wants to look at. A pure function from messages to text: no clock, no terminal.

mod tree;
mod words;

use orch8_proto::v1::{GetTimelineResponse, TimelineNode};

use crate::{
    screen::Paint,
    timeline::tree::{Label, Twig},
};

use words::state_symbol;
pub use words::{headline, node_line};

/// Names longer than this do not push the other columns further to the right.
const NAME_COLUMN_MAX: usize = 48;

/// The whole run: a headline, then one line per activated block, with what it waits for or why it failed below it.
/// `now` in milliseconds since 1970.
pub fn render(timeline: &GetTimelineResponse, now: i64, paint: Paint) -> String {
    let mut lines = Vec::new();
    let instance = timeline.instance.clone().unwrap_or_default();
    let twigs = tree::grow(&timeline.nodes);
    draw(&twigs, "", &Scene { instance_id: &instance.instance_id, now, paint }, &mut lines);

    let name_width = column(&lines, |row| width(&row.rail) + width(&row.name)).min(NAME_COLUMN_MAX);
    let what_width = column(&lines, |row| width(&row.what));
    let time_width = column(&lines, |row| width(&row.time));
    let mut text = words::headline(&instance, now, paint);
    for line in &lines {
        text.push('\n');
        match line {
            Line::Detail(detail) => text.push_str(detail),
            Line::Row(row) => text.push_str(&row.aligned(name_width, what_width, time_width, paint)),
        }
    }
    text.push('\n');
    text
}

/// What every line needs to know.
struct Scene<'a> {
    instance_id: &'a str,
    now: i64,
    paint: Paint,
}

enum Line {
    Row(Row),
    /// Painted already; not part of the columns.
    Detail(String),
}

/// Columns of one line, unpainted.
struct Row {
    /// Lines of the tree before the symbol.
    rail: String,
    symbol: String,
    name: String,
    what: String,
    time: String,
    /// Tries, the chosen route.
    rest: String,
}

impl Row {
    fn aligned(&self, names: usize, whats: usize, times: usize, paint: Paint) -> String {
        let taken = width(&self.rail) + width(&self.name);
        let gap = " ".repeat(names.saturating_sub(taken));
        let what = pad_right(&self.what, whats);
        let time = pad_left(&self.time, times);
        let line = format!(
            "{}{} {}{gap}  {}  {time}  {}",
            paint.dim(&self.rail),
            self.symbol,
            self.name,
            paint.dim(&what),
            self.rest
        );
        line.trim_end().to_owned()
    }
}

fn draw(twigs: &[Twig<'_>], rail: &str, scene: &Scene<'_>, lines: &mut Vec<Line>) {
    for (i, twig) in twigs.iter().enumerate() {
        let last = i + 1 == twigs.len();
        let (fork, onward) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let below = format!("{rail}{onward}");
        let own = format!("{rail}{fork}");
        match &twig.label {
            Label::Node { node, name } => {
                draw_node(node, name, own, &below, twig.below.is_empty(), scene, lines)
            }
            Label::Group { name, state } => lines.push(Line::Row(Row {
                rail: own,
                symbol: state_symbol(*state, scene.paint),
                name: name.clone(),
                what: String::new(),
                time: String::new(),
                rest: String::new(),
            })),
            Label::Folded(text) => {
                lines.push(Line::Detail(format!("{}{}", scene.paint.dim(&own), scene.paint.dim(text))));
            }
        }
        draw(&twig.below, &below, scene, lines);
    }
}

fn draw_node(
    node: &TimelineNode,
    name: &str,
    rail: String,
    below: &str,
    is_leaf: bool,
    scene: &Scene<'_>,
    lines: &mut Vec<Line>,
) {
    lines.push(Line::Row(Row {
        rail,
        symbol: state_symbol(node.state(), scene.paint),
        name: name.to_owned(),
        what: words::what(node),
        time: words::time(node),
        rest: words::rest(node),
    }));
    // Two more columns, so that details stand below the name and not below the symbol.
    let rail = if is_leaf { format!("{below}  ") } else { format!("{below}│ ") };
    for detail in words::details(node, scene.instance_id, scene.now, scene.paint) {
        lines.push(Line::Detail(format!("{}{detail}", scene.paint.dim(&rail))));
    }
}

/// The widest of a column.
fn column(lines: &[Line], width: impl Fn(&Row) -> usize) -> usize {
    let rows = lines.iter().filter_map(|line| match line {
        Line::Row(row) => Some(row),
        Line::Detail(_) => None,
    });
    rows.map(width).max().unwrap_or(0)
}

/// Characters; close enough to columns for ids and handler names.
fn width(text: &str) -> usize {
    text.chars().count()
}

fn pad_right(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

fn pad_left(text: &str, to: usize) -> String {
    format!("{}{text}", " ".repeat(to.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests;
