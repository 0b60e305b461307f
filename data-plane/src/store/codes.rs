//! Nouns as numbers and short texts: what both databases put into their columns.

use orch8_engine::{SignalKind, Status};
use serde_json::Value;

use super::FenceMode;

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
