//! Columns → nouns. The only place where a stored value is believed, and the place where it is not.

use orch8_model::{InstanceId, Millis, NameProblem};
use sqlx::{Column as _, Decode, Postgres, Row as _, Type, TypeInfo as _, postgres::PgRow};
use uuid::Uuid;

use crate::store::StoreError;

/// A row being read. The first column is its key, in errors.
pub(super) struct Fields<'r> {
    row: &'r PgRow,
    table: &'static str,
}

impl<'r> Fields<'r> {
    pub fn of(table: &'static str, row: &'r PgRow) -> Self {
        Self { row, table }
    }

    pub fn get<T: Decode<'r, Postgres> + Type<Postgres>>(
        &self,
        at: usize,
        column: &'static str,
    ) -> Result<T, StoreError> {
        self.row.try_get(at).map_err(|_| self.corrupt(column))
    }

    /// An integer of any width.
    pub fn int(&self, at: usize, column: &'static str) -> Result<i64, StoreError> {
        match self.row.columns().get(at).map(|c| c.type_info().name()) {
            Some("INT2") => self.get::<i16>(at, column).map(i64::from),
            Some("INT4") => self.get::<i32>(at, column).map(i64::from),
            Some(_) | None => self.get(at, column),
        }
    }

    pub fn flag(&self, at: usize, column: &'static str) -> Result<bool, StoreError> {
        self.get(at, column)
    }

    pub fn millis(&self, at: usize, column: &'static str) -> Result<Millis, StoreError> {
        self.int(at, column).map(Millis)
    }

    pub fn text(&self, at: usize, column: &'static str) -> Result<&'r str, StoreError> {
        self.get(at, column)
    }

    pub fn bytes(&self, at: usize, column: &'static str) -> Result<&'r [u8], StoreError> {
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

    pub fn uuid(&self, at: usize, column: &'static str) -> Result<Uuid, StoreError> {
        self.get(at, column)
    }

    pub fn instance(&self, at: usize, column: &'static str) -> Result<InstanceId, StoreError> {
        self.uuid(at, column).map(InstanceId)
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
        let number = || self.row.try_get::<i64, _>(0).map(|n| n.to_string());
        let small = |_| self.row.try_get::<i16, _>(0).map(|n| n.to_string());
        let text = |_| self.row.try_get::<&str, _>(0).map(str::to_owned);
        let uuid = |_| self.row.try_get::<Uuid, _>(0).map(|id| id.simple().to_string());
        number().or_else(small).or_else(text).or_else(uuid).unwrap_or_default()
    }
}

/// The day an instance was born on, as its id says: a number of any id, however it was made.
pub(super) fn bucket(id: Uuid) -> i64 {
    const DAY_MS: u128 = 86_400_000;
    i64::try_from((id.as_u128() >> 80) / DAY_MS).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_the_day_in_the_id_and_fits_its_column() {
        let day = |ms: u128| bucket(Uuid::from_u128(ms << 80 | 0x7abc << 64));
        assert_eq!((day(0), day(86_399_999), day(86_400_000)), (0, 0, 1));
        assert!(i32::try_from(bucket(Uuid::max())).is_ok());
    }
}
