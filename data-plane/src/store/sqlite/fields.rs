//! Columns → nouns. The only place where a stored value is believed, and the place where it is not.

use orch8_model::{InstanceId, Millis, NameProblem};
use sqlx::{Decode, Row as _, Sqlite, Type, sqlite::SqliteRow};

use crate::store::StoreError;

/// A row being read. The first column is its key, in errors.
pub(super) struct Fields<'r> {
    row: &'r SqliteRow,
    table: &'static str,
}

impl<'r> Fields<'r> {
    pub fn of(table: &'static str, row: &'r SqliteRow) -> Self {
        Self { row, table }
    }

    fn get<T: Decode<'r, Sqlite> + Type<Sqlite>>(
        &self,
        at: usize,
        column: &'static str,
    ) -> Result<T, StoreError> {
        self.row.try_get(at).map_err(|_| self.corrupt(column))
    }

    pub fn int(&self, at: usize, column: &'static str) -> Result<i64, StoreError> {
        self.get(at, column)
    }

    pub fn opt_int(&self, at: usize, column: &'static str) -> Result<Option<i64>, StoreError> {
        self.get(at, column)
    }

    pub fn flag(&self, at: usize, column: &'static str) -> Result<bool, StoreError> {
        match self.int(at, column)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.corrupt(column)),
        }
    }

    pub fn millis(&self, at: usize, column: &'static str) -> Result<Millis, StoreError> {
        self.int(at, column).map(Millis)
    }

    pub fn text(&self, at: usize, column: &'static str) -> Result<&'r str, StoreError> {
        self.get(at, column)
    }

    pub fn opt_text(&self, at: usize, column: &'static str) -> Result<Option<&'r str>, StoreError> {
        self.get(at, column)
    }

    pub fn blob(&self, at: usize, column: &'static str) -> Result<&'r [u8], StoreError> {
        self.get(at, column)
    }

    /// An integer that a narrower type holds.
    pub fn narrow<T: TryFrom<i64>>(&self, at: usize, column: &'static str) -> Result<T, StoreError> {
        T::try_from(self.int(at, column)?).map_err(|_| self.corrupt(column))
    }

    pub fn name<T>(
        &self,
        at: usize,
        column: &'static str,
        parse: impl FnOnce(&str) -> Result<T, NameProblem>,
    ) -> Result<T, StoreError> {
        parse(self.text(at, column)?).map_err(|_| self.corrupt(column))
    }

    /// Bytes of a fixed length: an id, a digest.
    pub fn bytes<T>(
        &self,
        at: usize,
        column: &'static str,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, StoreError> {
        self.noun(column, parse(self.blob(at, column)?))
    }

    pub fn instance(&self, at: usize, column: &'static str) -> Result<InstanceId, StoreError> {
        self.bytes(at, column, InstanceId::from_slice)
    }

    /// `None`: the value is not one that this version knows.
    pub fn noun<T>(&self, column: &'static str, parsed: Option<T>) -> Result<T, StoreError> {
        parsed.ok_or_else(|| self.corrupt(column))
    }

    pub fn corrupt(&self, column: &'static str) -> StoreError {
        StoreError::Corrupt { table: self.table, column, key: self.key() }
    }

    /// The first column, for people.
    fn key(&self) -> String {
        if let Ok(number) = self.row.try_get::<i64, _>(0) {
            return number.to_string();
        }
        if let Ok(text) = self.row.try_get::<&str, _>(0) {
            return text.to_owned();
        }
        self.row.try_get::<&[u8], _>(0).map(hex).unwrap_or_default()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
