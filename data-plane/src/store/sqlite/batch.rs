//! One statement over many rows. Each statement costs a hop to SQLite's thread and back, so a batch is one text with a
//! `VALUES` list as long as the batch, padded to a power of two: nine texts in all, each prepared once.

use std::sync::{Arc, OnceLock};

use super::session::Args;

/// A statement whose single `(VALUES (?, …))` row is repeated. Rows without arguments are NULL, so the statement must
/// leave out rows whose key is NULL: that is the padding.
pub(super) struct Batch {
    sql: &'static str,
    texts: [OnceLock<Arc<str>>; SIZES],
}

/// 1, 2, 4 … 256 rows.
const SIZES: usize = 9;
/// Rows of the longest text: longer ones gain nothing, and stay prepared.
const ROWS_MAX: usize = 1 << (SIZES - 1);

const OPEN: &str = "(VALUES ";

impl Batch {
    pub const fn new(sql: &'static str) -> Self {
        Self { sql, texts: [const { OnceLock::new() }; SIZES] }
    }

    /// Texts with arguments that together cover all items. `bind` gets the item's index in `items`.
    pub fn chunks<'a, T>(
        &'static self,
        items: &'a [T],
        bind: impl Fn(Args, usize, &T) -> Args + 'a,
    ) -> impl Iterator<Item = (Arc<str>, Args)> + 'a {
        items.chunks(ROWS_MAX).enumerate().map(move |(chunk, items)| {
            let first = chunk * ROWS_MAX;
            let args =
                items.iter().enumerate().fold(Args::new(), |args, (n, item)| bind(args, first + n, item));
            (self.text(items.len()), args)
        })
    }

    /// The text for up to `rows` rows.
    fn text(&'static self, rows: usize) -> Arc<str> {
        let size = rows.clamp(1, ROWS_MAX).next_power_of_two();
        let text = self.texts[size.trailing_zeros() as usize].get_or_init(|| self.repeat(size).into());
        Arc::clone(text)
    }

    fn repeat(&self, size: usize) -> String {
        let (head, rest) = self.sql.split_once(OPEN).expect("a batch statement has a VALUES list");
        let (row, tail) = rest.split_once(')').expect("a VALUES row ends");
        let rows = vec![format!("{row})"); size].join(", ");
        format!("{head}{OPEN}{rows}{tail}")
    }

    /// The text for a test of its plan.
    #[cfg(test)]
    pub fn widest(&'static self) -> Arc<str> {
        self.text(ROWS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static INSERT: Batch = Batch::new("WITH v (a, b) AS (VALUES (?, ?)) SELECT a FROM v WHERE a IS NOT NULL");

    #[test]
    fn a_batch_is_padded_to_a_power_of_two() {
        for (rows, size) in [(1, 1), (2, 2), (3, 4), (5, 8), (129, 256), (256, 256)] {
            assert_eq!(INSERT.text(rows).matches("(?, ?)").count(), size, "{rows}");
        }
        assert_eq!(
            &*INSERT.text(2),
            "WITH v (a, b) AS (VALUES (?, ?), (?, ?)) SELECT a FROM v WHERE a IS NOT NULL"
        );
    }

    #[test]
    fn chunks_cover_every_item_once() {
        let items: Vec<i64> = (0..600).collect();
        let sizes: Vec<usize> = INSERT
            .chunks(&items, |args, n, item| {
                assert_eq!(n as i64, *item);
                args.int(*item)
            })
            .map(|(text, _)| text.matches("(?, ?)").count())
            .collect();
        assert_eq!(sizes, [256, 256, 128]);
    }
}
