//! `orch8 key`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use orch8_model::{Millis, Role};
use orch8_proto::{
    door,
    identity::{self, wire_role},
    tls,
    v1::{ApiKey, CreateKeyRequest, ListKeysRequest, RevokeKeyRequest, WhoAmIRequest},
};
use serde_json::{Value, json};

use super::{ControlPlaneFlag, PAGE, at, every, refusal, show_rows};
use crate::{
    client::Caller,
    error::{CliError, Exit},
    human, json as wire,
    screen::{Paint, Screen},
};

/// A certificate with its chain has a few KiB.
const CERTIFICATE_BYTES_MAX: u64 = 1 << 20;

/// `orch8 key`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  orch8 key create --tenant acme --role worker --name 'billing workers' --expires 90d
  orch8 key list --tenant acme && orch8 key revoke 0123456789abcdef")]
pub struct KeyArgs {
    #[command(flatten)]
    control_plane: ControlPlaneFlag,
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a key. Its secret is shown once and stored nowhere.
    #[command(after_help = "\
Roles of a tenant, with --tenant: client, worker, publisher.
Roles of the deployment, without: operator, placement-admin, node.

Example:
  orch8 key create --tenant acme --role client --role publisher
  orch8 key create --role node --output json | sed 's/.*\"secret\":\"\\([^\"]*\\)\".*/\\1/' > node.key
  orch8 key create --role node --certificate node.crt     no secret: whoever shows this certificate")]
    Create(CreateArgs),
    /// Keys without their secrets, by id; of one tenant with --tenant.
    #[command(after_help = "Example:\n  orch8 key list --tenant acme --all")]
    List {
        /// Also those that were revoked or have expired.
        #[arg(long)]
        all: bool,
    },
    /// End a key, everywhere within a second, open streams included. Again changes nothing.
    #[command(after_help = "Example:\n  orch8 key revoke 0123456789abcdef")]
    Revoke {
        /// Its id, as `orch8 key list` shows it.
        #[arg(value_name = "KEY")]
        key_id: String,
    },
    /// What the key of this command is and may do.
    #[command(after_help = "Example:\n  ORCH8_KEY_FILE=node.key orch8 key whoami")]
    Whoami,
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// What it may do; may be repeated.
    #[arg(long = "role", required = true, value_parser = role, value_name = "ROLE")]
    roles: Vec<Role>,
    /// For people: whose it is, what for.
    #[arg(long, default_value = "")]
    name: String,
    /// Ends by itself after this time, for example 90d.
    #[arg(long, value_parser = human::parse_duration, value_name = "TIME")]
    expires: Option<Duration>,
    /// Client certificate (PEM) that stands in for a secret.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Your own name for this call: repeated within a day it makes no second key.
    #[arg(long, default_value = "", value_name = "ID")]
    request_id: String,
}

fn role(text: &str) -> Result<Role, String> {
    let known = || Role::ALL.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
    Role::parse(text).ok_or_else(|| format!("is none of {}", known()))
}

pub async fn run(args: KeyArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    match args.command {
        KeyCommand::Create(create) => {
            let request = request(create, caller.tenant(), Utc::now())?;
            let server = args.control_plane.connect(caller).await?;
            let made = server.tenants().create_key(request).await.map_err(unmade)?.into_inner();
            let key = made.key.unwrap_or_default();
            screen.show(
                |paint| shown_once(&key, &made.secret, paint),
                || {
                    let mut json = document(&key);
                    if let (Value::Object(fields), false) = (&mut json, made.secret.is_empty()) {
                        fields.insert("secret".to_owned(), made.secret.clone().into());
                    }
                    json
                },
            )?;
        }
        KeyCommand::List { all } => list(all, &args.control_plane, caller, screen).await?,
        KeyCommand::Revoke { key_id } => {
            let server = args.control_plane.connect(caller).await?;
            let ended = server.tenants().revoke_key(RevokeKeyRequest { key_id }).await;
            let ended = ended.map_err(|s| refusal(s, "there is no such key: see `orch8 key list --all`"))?;
            let key = ended.into_inner().key.unwrap_or_default();
            screen.show(
                |paint| {
                    let since = at(key.revoked_at.as_ref());
                    format!("{} {} is revoked since {since}", paint.green("✓"), key.key_id)
                },
                || document(&key),
            )?;
        }
        KeyCommand::Whoami => whoami(&args.control_plane, caller, screen).await?,
    }
    Ok(Exit::Ok)
}

async fn list(all: bool, at: &ControlPlaneFlag, caller: &Caller, screen: Screen) -> anyhow::Result<()> {
    let server = at.connect(caller).await?;
    let (mut tenants, tenant_id) = (server.tenants(), caller.tenant());
    let keys = every(async |page_token| {
        let request = ListKeysRequest { tenant_id: tenant_id.clone(), page_size: PAGE, page_token };
        let page = tenants.list_keys(request).await?.into_inner();
        Ok((page.keys, page.next_page_token))
    });
    let now = Utc::now();
    let shown = |key: &ApiKey| all || state(key, now) == "good";
    let keys: Vec<ApiKey> = keys.await?.into_iter().filter(shown).collect();
    let headings = ["KEY", "TENANT", "ROLES", "NAME", "CREATED (UTC)", "EXPIRES (UTC)", "STATE"];
    let nothing = "no keys; `orch8 key create --tenant TENANT --role ROLE` makes one";
    show_rows(&keys, screen, headings, nothing, |key| row(key, now), document)
}

async fn whoami(at: &ControlPlaneFlag, caller: &Caller, screen: Screen) -> anyhow::Result<()> {
    let server = at.connect(caller).await?;
    let me = server.tenants().who_am_i(WhoAmIRequest {}).await;
    let me = me.map_err(|s| refusal(s, ""))?.into_inner();
    screen.show(
        |_| {
            let whose = match me.tenant_id.as_str() {
                "" => "the deployment".to_owned(),
                tenant => format!("the tenant {}", human::foreign(tenant, 80)),
            };
            format!("key {} of {whose}: {}", human::foreign(&me.key_id, 32), roles(&me.roles).join(", "))
        },
        || json!({ "key_id": me.key_id, "tenant_id": me.tenant_id, "roles": roles(&me.roles) }),
    )
}

fn request(args: CreateArgs, tenant_id: String, now: DateTime<Utc>) -> Result<CreateKeyRequest, CliError> {
    let certificate = args.certificate.as_deref().map(fingerprint).transpose()?;
    let expires_at = args.expires.map(|after| {
        let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        door::wire_instant(Millis::from(now).plus(after))
    });
    Ok(CreateKeyRequest {
        tenant_id,
        roles: args.roles.into_iter().map(|role| wire_role(role).into()).collect(),
        display_name: args.name,
        expires_at,
        request_id: args.request_id,
        certificate_sha256: certificate.unwrap_or_default().into(),
    })
}

fn fingerprint(file: &Path) -> Result<Vec<u8>, CliError> {
    let wrong = |why: String| CliError::usage(format!("--certificate {}: {why}", file.display()));
    let pem = crate::config::read_bytes(file, CERTIFICATE_BYTES_MAX).map_err(wrong)?;
    let digest = tls::fingerprint(&pem).map_err(|why| wrong(format!("the file {why}")))?;
    Ok(digest.0.to_vec())
}

/// Why there is no key, with the flag that is wrong.
fn unmade(status: tonic::Status) -> CliError {
    let error = refusal(status, "there is no such tenant: see `orch8 tenant list`");
    let of_tenant = error.fields.iter().any(|field| field.name == "tenant_id");
    let (hint, because) = (error.hint.clone(), error.reason.clone());
    match (of_tenant, because.as_str()) {
        (true, _) => error.hint(
            "client, worker and publisher want --tenant TENANT; operator, placement-admin and node do without",
        ),
        (false, "ROLE_MISSING") => error.hint("ask for the role from somebody who has it"),
        (false, _) => CliError { hint, ..error },
    }
}

fn shown_once(key: &ApiKey, secret: &str, paint: Paint) -> String {
    let what = format!("{} key {}: {}", paint.green("✓"), key.key_id, roles(&key.roles).join(", "));
    match secret {
        "" => format!("{what}\nwhoever shows the certificate may use it"),
        secret => format!("{what}\nits secret, shown here and never again:\n\n  {secret}\n"),
    }
}

/// `good`, `expired` or `revoked`.
fn state(key: &ApiKey, now: DateTime<Utc>) -> &'static str {
    match (key.revoked_at.is_some(), wire::instant(key.expires_at.as_ref())) {
        (true, _) => "revoked",
        (false, Some(end)) if end <= now => "expired",
        (false, _) => "good",
    }
}

/// Words for roles; what this build does not know is `unknown`.
fn roles(numbers: &[i32]) -> Vec<&'static str> {
    let word = |number: &i32| identity::role("roles", *number).map_or("unknown", Role::as_str);
    numbers.iter().map(word).collect()
}

fn row(key: &ApiKey, now: DateTime<Utc>) -> [String; 7] {
    [
        human::foreign(&key.key_id, 32),
        human::foreign(&key.tenant_id, 60),
        roles(&key.roles).join(","),
        human::foreign(&key.display_name, 40),
        at(key.created_at.as_ref()),
        at(key.expires_at.as_ref()),
        state(key, now).to_owned(),
    ]
}

fn document(key: &ApiKey) -> Value {
    json!({
        "key_id": key.key_id,
        "tenant_id": key.tenant_id,
        "roles": roles(&key.roles),
        "display_name": key.display_name,
        "created_at": wire::rfc3339(key.created_at.as_ref()),
        "expires_at": wire::rfc3339(key.expires_at.as_ref()),
        "revoked_at": wire::rfc3339(key.revoked_at.as_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_good_until_it_is_revoked_or_its_end_has_come() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let now = DateTime::from_timestamp(100, 0).expect("an instant");
        for (expires_at, revoked_at, expected) in [
            (None, None, "good"),
            (at(101), None, "good"),
            (at(100), None, "expired"),
            (at(99), at(1), "revoked"),
        ] {
            assert_eq!(state(&ApiKey { expires_at, revoked_at, ..ApiKey::default() }, now), expected);
        }
    }

    #[test]
    fn roles_are_words_and_unknown_numbers_are_no_panic() {
        assert_eq!(roles(&[5, 99, -1]), ["placement-admin", "unknown", "unknown"]);
        assert!(role("admin").expect_err("none").contains("placement-admin"));
    }
}
