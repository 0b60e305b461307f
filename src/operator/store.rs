//! `orch8 store`.

use clap::{Args, Subcommand, ValueEnum};
use orch8_proto::v1::{ListStoresRequest, RegisterStoreRequest, Store, StoreKind};
use serde_json::{Value, json};

use super::{ControlPlaneFlag, PAGE, at, every, refusal, show_rows};
use crate::{client::Caller, error::Exit, human, json as wire, screen::Screen};

/// `orch8 store`.
#[derive(Debug, Args)]
#[command(after_help = "\
A store is known by its name alone. Where it is and how it is opened stands in the configuration of the nodes that serve
it: `[stores.NAME] url = …` of `orch8 data-plane`.

Example:
  orch8 store register main --kind postgres && orch8 store list")]
pub struct StoreArgs {
    #[command(flatten)]
    control_plane: ControlPlaneFlag,
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Make a store known, so that nodes may serve it and tenants be placed in it. Again changes nothing.
    #[command(after_help = "Example:\n  orch8 store register main --kind postgres")]
    Register {
        /// 1–128 letters, digits, dots, dashes, underscores.
        store: String,
        /// What keeps its rows.
        #[arg(long, value_enum)]
        kind: KindArg,
    },
    /// Every store, by name.
    #[command(after_help = "Example:\n  orch8 store list --output json")]
    List,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindArg {
    /// A Postgres database, or a service that speaks its protocol.
    Postgres,
    /// A file of one process.
    Sqlite,
}

impl From<KindArg> for StoreKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Postgres => Self::Postgres,
            KindArg::Sqlite => Self::Sqlite,
        }
    }
}

pub async fn run(args: StoreArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = args.control_plane.connect(caller).await?;
    let mut placements = server.placements();
    match args.command {
        StoreCommand::Register { store, kind } => {
            let request = RegisterStoreRequest { name: store, kind: StoreKind::from(kind).into() };
            let known = placements.register_store(request).await.map_err(|s| refusal(s, MISSING))?;
            let known = known.into_inner().store.unwrap_or_default();
            let name = human::foreign(&known.name, 128);
            screen.show(
                |paint| {
                    format!(
                        "{} {name} is known as a {} store\nnext: give its URL to a node ([stores.{name}]), and place tenants: orch8 placement set TENANT --store {name}",
                        paint.green("✓"),
                        word(known.kind())
                    )
                },
                || document(&known),
            )?;
        }
        StoreCommand::List => {
            let rows = every(async |page_token| {
                let request = ListStoresRequest { page_size: PAGE, page_token };
                let page = placements.list_stores(request).await?.into_inner();
                Ok((page.stores, page.next_page_token))
            });
            let headings = ["STORE", "KIND", "SHARDS", "REGISTERED (UTC)"];
            let nothing = "no stores; `orch8 store register NAME --kind KIND` makes one known";
            show_rows(&rows.await?, screen, headings, nothing, row, document)?;
        }
    }
    Ok(Exit::Ok)
}

const MISSING: &str = "see `orch8 store list`";

fn word(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Unspecified => "unspecified",
        StoreKind::Postgres => "postgres",
        StoreKind::Sqlite => "sqlite",
    }
}

fn row(store: &Store) -> [String; 4] {
    let shards = match store.shard_count {
        0 => "no node yet".to_owned(),
        count => count.to_string(),
    };
    let kind = word(store.kind()).to_owned();
    [human::foreign(&store.name, 128), kind, shards, at(store.created_at.as_ref())]
}

fn document(store: &Store) -> Value {
    json!({
        "name": store.name,
        "kind": word(store.kind()),
        "shard_count": store.shard_count,
        "created_at": wire::rfc3339(store.created_at.as_ref()),
    })
}
