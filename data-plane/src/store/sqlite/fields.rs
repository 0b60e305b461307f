//! Columns → nouns. The only place where a stored value is believed, and the place where it is not.

use orch8_engine::{SignalKind, Status};
use orch8_model::{InstanceId, Millis, NameProblem};
use serde_json::Value;
use sqlx::{Decode, Row as _, Sqlite, Type, sqlite::SqliteRow};

use crate::store::{FenceMode, StoreError};

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

/// How a status is stored.
pub(super) fn status_code(status: Status) -> i64 {
    match status {
        Status::Scheduled => 1,
        Status::Running => 2,
        Status::Waiting => 3,
        Status::Paused => 4,
        Status::Completed => 5,
        Status::Failed => 6,
        Status::Cancelled => 7,
    }
}

pub(super) fn status_of(code: i64) -> Option<Status> {
    Some(match code {
        1 => Status::Scheduled,
        2 => Status::Running,
        3 => Status::Waiting,
        4 => Status::Paused,
        5 => Status::Completed,
        6 => Status::Failed,
        7 => Status::Cancelled,
        _ => return None,
    })
}

/// How a fence's mode is stored.
pub(super) fn mode_text(mode: FenceMode) -> &'static str {
    match mode {
        FenceMode::Active => "active",
        FenceMode::Draining => "draining",
        FenceMode::Sealed => "sealed",
        FenceMode::Guest => "guest",
    }
}

pub(super) fn mode_of(text: &str) -> Option<FenceMode> {
    Some(match text {
        "active" => FenceMode::Active,
        "draining" => FenceMode::Draining,
        "sealed" => FenceMode::Sealed,
        "guest" => FenceMode::Guest,
        _ => return None,
    })
}

/// How a signal is stored: kind, name, payload. The payload is a column of its own so that it is stored no deeper than
/// it came.
pub(super) fn signal_columns(kind: &SignalKind) -> (&'static str, &str, String) {
    match kind {
        SignalKind::Pause => ("pause", "", String::new()),
        SignalKind::Resume => ("resume", "", String::new()),
        SignalKind::Cancel { reason } => ("cancel", "", reason.clone()),
        SignalKind::UpdateContext(patch) => {
            ("update_context", "", orch8_model::json::print(&Value::Object(patch.clone())))
        }
        SignalKind::Custom { name, payload } => ("custom", name, orch8_model::json::print(payload)),
    }
}

pub(super) fn signal_of(kind: &str, name: &str, payload: &str) -> Option<SignalKind> {
    Some(match kind {
        "pause" => SignalKind::Pause,
        "resume" => SignalKind::Resume,
        "cancel" => SignalKind::Cancel { reason: payload.to_owned() },
        "update_context" => match orch8_model::json::parse(payload.as_bytes()).ok()? {
            Value::Object(patch) => SignalKind::UpdateContext(patch),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return None;
            }
        },
        "custom" => SignalKind::Custom {
            name: name.to_owned(),
            payload: orch8_model::json::parse(payload.as_bytes()).ok()?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_status_and_mode_is_read_back() {
        for code in 1..=7 {
            assert_eq!(status_of(code).map(status_code), Some(code));
        }
        assert_eq!((status_of(0), status_of(8)), (None, None));
        for mode in [FenceMode::Active, FenceMode::Draining, FenceMode::Sealed, FenceMode::Guest] {
            assert_eq!(mode_of(mode_text(mode)), Some(mode));
        }
    }

    #[test]
    fn every_signal_is_read_back_and_a_foreign_one_is_not() {
        let patch = json!({"b": 1, "a": [null, 1.5]});
        let kinds = [
            SignalKind::Pause,
            SignalKind::Resume,
            SignalKind::Cancel { reason: "no longer \u{202e}wanted".to_owned() },
            SignalKind::UpdateContext(patch.as_object().cloned().unwrap_or_default()),
            SignalKind::Custom { name: "human_input:ask".to_owned(), payload: patch },
        ];
        for kind in kinds {
            let (code, name, payload) = signal_columns(&kind);
            assert_eq!(signal_of(code, name, &payload), Some(kind.clone()));
        }
        assert_eq!(signal_of("explode", "", ""), None);
        assert_eq!(signal_of("custom", "x", "{"), None);
        assert_eq!(signal_of("update_context", "", "[]"), None);
    }
}
