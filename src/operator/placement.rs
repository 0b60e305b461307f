//! `orch8 placement`.

use clap::{Args, Subcommand};
use orch8_model::Reason;
use orch8_proto::{
    client::Failure,
    v1::{
        GetPlacementRequest, ListPlacementsRequest, Placement, SetPlacementRequest,
        placement_service_client::PlacementServiceClient,
    },
};
use serde_json::{Value, json};
use tonic::Code;

use super::{ControlPlaneFlag, PAGE, at, every, refusal, show_rows};
use crate::{
    client::{Authorized, Caller},
    error::{CliError, Exit},
    human, json as wire,
    screen::Screen,
};

/// `orch8 placement`.
#[derive(Debug, Args)]
#[command(after_help = "\
A placement says which store holds a tenant. There is no default: a tenant without one is refused everywhere.

Example:
  orch8 placement set acme --store main && orch8 placement list")]
pub struct PlacementArgs {
    #[command(flatten)]
    control_plane: ControlPlaneFlag,
    #[command(subcommand)]
    command: PlacementCommand,
}

#[derive(Debug, Subcommand)]
enum PlacementCommand {
    /// Place a tenant, or point it at another store. Moves the pointer, not the rows.
    #[command(after_help = "\
Example:
  orch8 placement set acme --store main
  orch8 placement set acme --store main --epoch 7     refused unless the stored epoch is lower")]
    Set {
        #[arg(value_name = "TENANT")]
        tenant_id: String,
        /// A registered store.
        #[arg(long)]
        store: String,
        /// Must be higher than the stored one; by default the next.
        #[arg(long)]
        epoch: Option<u64>,
    },
    /// Where one tenant is.
    #[command(after_help = "Example:\n  orch8 placement show acme")]
    Show {
        #[arg(value_name = "TENANT")]
        tenant_id: String,
    },
    /// Where every tenant is, by tenant.
    #[command(after_help = "Example:\n  orch8 placement list --output json")]
    List,
}

pub async fn run(args: PlacementArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = args.control_plane.connect(caller).await?;
    let mut placements = server.placements();
    match args.command {
        PlacementCommand::Set { tenant_id, store, epoch } => {
            let next = match epoch {
                Some(epoch) => epoch,
                None => next_epoch(&mut placements, &tenant_id).await?,
            };
            let request = SetPlacementRequest { tenant_id, store, epoch: next };
            let placed = placements.set_placement(request).await.map_err(|status| {
                let chosen = status.code() == Code::Aborted && epoch.is_some();
                let error = refusal(status, NO_TENANT);
                if chosen { error.hint("without --epoch the next one is used") } else { error }
            })?;
            let placed = placed.into_inner().placement.unwrap_or_default();
            screen.show(
                |paint| {
                    let (tenant, store) =
                        (human::foreign(&placed.tenant_id, 256), human::foreign(&placed.store, 128));
                    format!("{} {tenant} is in {store}, epoch {}", paint.green("✓"), placed.epoch)
                },
                || document(&placed),
            )?;
        }
        PlacementCommand::Show { tenant_id } => {
            let found = placements.get_placement(GetPlacementRequest { tenant_id }).await;
            let found = found.map_err(|s| refusal(s, NOT_PLACED))?.into_inner().placement;
            show_rows(&[found.unwrap_or_default()], screen, HEADINGS, "", row, document)?;
        }
        PlacementCommand::List => {
            let rows = every(async |page_token| {
                let request = ListPlacementsRequest { page_size: PAGE, page_token };
                let page = placements.list_placements(request).await?.into_inner();
                Ok((page.placements, page.next_page_token))
            });
            let nothing = "no tenant is placed; `orch8 placement set TENANT --store STORE` does it";
            show_rows(&rows.await?, screen, HEADINGS, nothing, row, document)?;
        }
    }
    Ok(Exit::Ok)
}

const NO_TENANT: &str =
    "there is no such tenant: see `orch8 tenant list`, or make it with `orch8 tenant create`";
const NOT_PLACED: &str = "place it: orch8 placement set TENANT --store STORE";
const HEADINGS: [&str; 4] = ["TENANT", "STORE", "EPOCH", "SINCE (UTC)"];

/// The one behind the stored; 1 for a tenant that is not placed.
async fn next_epoch(
    placements: &mut PlacementServiceClient<Authorized>,
    tenant: &str,
) -> anyhow::Result<u64> {
    let stored = placements.get_placement(GetPlacementRequest { tenant_id: tenant.to_owned() }).await;
    let stored = match stored {
        Ok(found) => found.into_inner().placement.unwrap_or_default().epoch,
        Err(status) if Failure::from(status.clone()).known() == Some(Reason::TenantNotPlaced) => 0,
        Err(status) => return Err(refusal(status, NO_TENANT).into()),
    };
    stored.checked_add(1).ok_or_else(|| {
        CliError::new(Exit::Refused, "INVALID_FIELD", "the stored epoch is the last there is").into()
    })
}

fn row(placement: &Placement) -> [String; 4] {
    [
        human::foreign(&placement.tenant_id, 80),
        human::foreign(&placement.store, 128),
        placement.epoch.to_string(),
        at(placement.updated_at.as_ref()),
    ]
}

fn document(placement: &Placement) -> Value {
    json!({
        "tenant_id": placement.tenant_id,
        "store": placement.store,
        "epoch": placement.epoch,
        "updated_at": wire::rfc3339(placement.updated_at.as_ref()),
    })
}
