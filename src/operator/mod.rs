//! Commands of those who run a deployment: tenants, keys, stores, placements, the fleet. All of them speak to a control
//! plane, with an operator's key.

pub mod fleet;
pub mod key;
pub mod placement;
pub mod store;
pub mod tenant;

use clap::Args;
use serde_json::Value;
use tonic::{Code, Status};

use crate::{
    client::{Caller, Server},
    error::{CliError, Exit},
    human, json as wire,
    screen::{Mode, Screen, Table},
};

/// Rows on one page of the server.
const PAGE: i32 = 500;
/// Pages read before giving up: a server that never ends its list is broken.
const PAGES_MAX: usize = 10_000;

/// Where the control plane is.
#[derive(Debug, Clone, Default, Args)]
pub struct ControlPlaneFlag {
    /// Control plane, when it is not at --address; several replicas with commas.
    #[arg(long, global = true, env = "ORCH8_CONTROL_PLANE", value_name = "URL")]
    control_plane: Option<String>,
}

impl ControlPlaneFlag {
    async fn connect(&self, caller: &Caller) -> anyhow::Result<Server> {
        caller.connect_to_control_plane(self.control_plane.as_deref()).await
    }
}

/// A refusal with what to do next. `missing`: what to type when it was not found.
fn refusal(status: Status, missing: &str) -> CliError {
    let code = status.code();
    let error = CliError::from(status);
    match code {
        Code::NotFound => error.hint(missing),
        Code::Unimplemented => error.hint(
            "this server is no control plane, or an older one; name the control plane with --control-plane or ORCH8_CONTROL_PLANE",
        ),
        Code::PermissionDenied => error.hint(
            "operators may read and make tenants and keys, placement-admins stores and placements; `orch8 key whoami` says what this key may",
        ),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => error,
    }
}

/// Everything a listing has, page by page. `page` answers rows and the token of the next page.
async fn every<T>(
    mut page: impl AsyncFnMut(String) -> Result<(Vec<T>, String), Status>,
) -> anyhow::Result<Vec<T>> {
    let (mut rows, mut token) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let (more, next) = page(token).await.map_err(|status| refusal(status, "nothing is there"))?;
        rows.extend(more);
        if next.is_empty() {
            return Ok(rows);
        }
        token = next;
    }
    Err(CliError::new(Exit::Failed, "INTERNAL", "the server's list has no end").into())
}

/// A table for people, one document per line for scripts; `nothing`: what to type when there are no rows.
fn show_rows<T, const N: usize>(
    rows: &[T],
    screen: Screen,
    headings: [&str; N],
    nothing: &str,
    human: impl Fn(&T) -> [String; N],
    json: impl Fn(&T) -> Value,
) -> anyhow::Result<()> {
    match screen.mode {
        Mode::Json => rows.iter().try_for_each(|row| screen.line(&json(row).to_string())),
        Mode::Human if rows.is_empty() => screen.line(nothing),
        Mode::Human => {
            let mut table = Table::new(headings);
            rows.iter().for_each(|row| table.row(human(row)));
            screen.line(&table.to_string())
        }
    }
}

/// An instant in a table; empty when there is none.
fn at(instant: Option<&prost_types::Timestamp>) -> String {
    wire::instant(instant).map(human::instant).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_is_read_to_its_end_and_one_without_an_end_is_not_read_for_ever() {
        let all = every(async |token: String| {
            let n: u32 = token.parse().unwrap_or_default();
            Ok((vec![n], if n < 3 { (n + 1).to_string() } else { String::new() }))
        });
        assert_eq!(all.await.expect("a list"), [0, 1, 2, 3]);
        let endless = every(async |_| Ok((Vec::<u32>::new(), "more".to_owned()))).await;
        assert!(endless.expect_err("no end").to_string().contains("no end"));
    }

    #[test]
    fn a_refusal_says_what_to_do_next() {
        for (code, next) in [
            (Code::NotFound, "orch8 tenant list"),
            (Code::Unimplemented, "--control-plane"),
            (Code::PermissionDenied, "orch8 key whoami"),
            (Code::Unavailable, "is it running?"),
        ] {
            let hint = refusal(Status::new(code, "no"), "see `orch8 tenant list`").hint.expect("a hint");
            assert!(hint.contains(next), "{code:?}: {hint}");
        }
    }
}
