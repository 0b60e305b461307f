//! "Did you mean": the known name that a misspelt one was probably meant to be, by edit distance.

/// Edits (insertions, deletions, replacements of one character) that still count as a slip of the fingers.
pub const EDITS_MAX: usize = 2;

/// Characters of the longest name that is compared: longer text is not a slip, and this bounds the work.
const COMPARED_CHARS_MAX: usize = 64;

/// The candidate with the fewest edits to `name`, the first of them on a tie; `None` when nothing is near.
///
/// Up to two edits are near when both names have at least four characters, one edit when they have three; shorter
/// names are near nothing, because two edits turn any of them into any other.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if name.len() > COMPARED_CHARS_MAX * 4 {
        return None;
    }
    let name: Vec<char> = name.chars().collect();
    let mut best: Option<(usize, &'c str)> = None;
    for candidate in candidates {
        let Some(distance) = edits(&name, candidate) else { continue };
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The edit distance when it is near, else `None`. One row of the Levenshtein table at a time.
fn edits(name: &[char], candidate: &str) -> Option<usize> {
    let other: Vec<char> = candidate.chars().take(COMPARED_CHARS_MAX + 1).collect();
    let allowed = match name.len().min(other.len()) {
        0..=2 => 0,
        3 => 1,
        _ => EDITS_MAX,
    };
    if name.len().max(other.len()) > COMPARED_CHARS_MAX || name.len().abs_diff(other.len()) > allowed {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in name.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
        if row.iter().min().is_none_or(|least| *least > allowed) {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= allowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let known = ["branches", "body", "condition", "log", "id", "sleep", "型名称号"];
        for (written, meant) in [
            ("branchs", Some("branches")),
            ("braches", Some("branches")),
            ("brnchs", Some("branches")),
            ("brnch", None),
            ("bdoy", Some("body")),
            ("logg", Some("log")),
            ("lgo", None),
            ("kind", None),
            ("ids", None),
            ("", None),
            ("slepe", Some("sleep")),
            ("型名称", Some("型名称号")),
            ("sleep", Some("sleep")),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
    }

    #[test]
    fn the_fewest_edits_win_and_the_first_on_a_tie() {
        assert_eq!(nearest("stop", ["steps", "step", "stop!"]), Some("step"));
        assert_eq!(nearest("stop", ["stopped", "steps"]), Some("steps"));
    }

    #[test]
    fn a_name_of_a_megabyte_is_near_nothing() {
        let long = "a".repeat(1 << 20);
        assert_eq!(nearest(&long, ["aaaa", long.as_str()]), None);
    }

    proptest! {
        #[test]
        fn two_edits_away_is_always_found(name in "[a-z]{6,20}", at in 0usize..6, other in 0usize..6, c in "[A-Z]") {
            let mut written: Vec<char> = name.chars().collect();
            written[at] = c.chars().next().unwrap_or('A');
            written.remove(other);
            let written: String = written.into_iter().collect();
            prop_assert_eq!(nearest(&written, [name.as_str()]), Some(name.as_str()));
        }
    }
}
