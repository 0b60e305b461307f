//! `orch8 tenant`.

use clap::{Args, Subcommand};
use orch8_proto::v1::{CreateTenantRequest, GetTenantRequest, ListTenantsRequest, Tenant};
use serde_json::{Value, json};

use super::{ControlPlaneFlag, PAGE, at, every, refusal, show_rows};
use crate::{client::Caller, error::Exit, human, json as wire, screen::Screen};

/// `orch8 tenant`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example, from nothing to a tenant that can work:
  orch8 store register main --kind postgres
  orch8 tenant create acme && orch8 placement set acme --store main
  orch8 key create --tenant acme --role client --role publisher")]
pub struct TenantArgs {
    #[command(flatten)]
    control_plane: ControlPlaneFlag,
    #[command(subcommand)]
    command: TenantCommand,
}

#[derive(Debug, Subcommand)]
enum TenantCommand {
    /// Make a tenant. The same name again changes nothing.
    #[command(after_help = "Example:\n  orch8 tenant create acme --name 'Acme Corporation'")]
    Create {
        /// Its id: 1–256 bytes, compared byte for byte.
        #[arg(value_name = "TENANT")]
        tenant_id: String,
        /// For people.
        #[arg(long, default_value = "")]
        name: String,
    },
    /// One tenant.
    #[command(after_help = "Example:\n  orch8 tenant show acme")]
    Show {
        #[arg(value_name = "TENANT")]
        tenant_id: String,
    },
    /// Every tenant, by id.
    #[command(after_help = "Example:\n  orch8 tenant list --output json")]
    List,
}

pub async fn run(args: TenantArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = args.control_plane.connect(caller).await?;
    let mut tenants = server.tenants();
    match args.command {
        TenantCommand::Create { tenant_id, name } => {
            let request = CreateTenantRequest { tenant_id, display_name: name };
            let made = tenants.create_tenant(request).await.map_err(|s| refusal(s, MISSING))?;
            let made = made.into_inner().tenant.unwrap_or_default();
            let id = human::foreign(&made.tenant_id, 256);
            screen.show(
                |paint| {
                    format!(
                        "{} {id} is there, made {}\nnext: orch8 placement set {id} --store STORE",
                        paint.green("✓"),
                        at(made.created_at.as_ref())
                    )
                },
                || document(&made),
            )?;
        }
        TenantCommand::Show { tenant_id } => {
            let found = tenants.get_tenant(GetTenantRequest { tenant_id }).await;
            let found = found.map_err(|s| refusal(s, MISSING))?.into_inner().tenant.unwrap_or_default();
            show_rows(&[found], screen, HEADINGS, "", row, document)?;
        }
        TenantCommand::List => {
            let rows = every(async |page_token| {
                let request = ListTenantsRequest { page_size: PAGE, page_token };
                let page = tenants.list_tenants(request).await?.into_inner();
                Ok((page.tenants, page.next_page_token))
            });
            let nothing = "no tenants; `orch8 tenant create NAME` makes one";
            show_rows(&rows.await?, screen, HEADINGS, nothing, row, document)?;
        }
    }
    Ok(Exit::Ok)
}

const MISSING: &str = "there is no such tenant: see `orch8 tenant list`";
const HEADINGS: [&str; 3] = ["TENANT", "NAME", "CREATED (UTC)"];

fn row(tenant: &Tenant) -> [String; 3] {
    let name = human::foreign(&tenant.display_name, 60);
    [human::foreign(&tenant.tenant_id, 80), name, at(tenant.created_at.as_ref())]
}

fn document(tenant: &Tenant) -> Value {
    json!({
        "tenant_id": tenant.tenant_id,
        "display_name": tenant.display_name,
        "created_at": wire::rfc3339(tenant.created_at.as_ref()),
    })
}
