//! `orch8 tenant`, `key`, `store`, `placement` and `fleet`, typed as an operator types them.

#[path = "../rig/mod.rs"]
mod rig;

use std::process::{Command, Output};

use rig::Engine;
use serde_json::Value;

/// A shell in a folder of `orch8 dev`, with nothing else set.
struct Desk<'a> {
    engine: &'a Engine,
    key: Option<String>,
}

impl Desk<'_> {
    fn types(&self, line: &str) -> Output {
        let mut command = Command::new(rig::ORCH8);
        command.args(line.split(' ')).env_clear().env("ORCH8_DIR", self.engine.dir());
        if let Some(key) = &self.key {
            command.env("ORCH8_KEY", key);
        }
        command.output().expect("orch8 runs")
    }

    /// What people read.
    fn reads(&self, line: &str) -> String {
        let output = self.types(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What scripts read: one document for each line.
    fn gets(&self, line: &str) -> Vec<Value> {
        let text = self.reads(&format!("{line} --output json"));
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Exit code, reason, and what to do next.
    fn is_refused(&self, line: &str) -> (i32, String, String) {
        let output = self.types(&format!("{line} --output json"));
        assert!(output.stdout.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stdout));
        let error: Value = serde_json::from_slice(&output.stderr)
            .unwrap_or_else(|_| panic!("{line}: {}", String::from_utf8_lossy(&output.stderr)));
        let error = &error["error"];
        let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
        let next = format!("{} {}", text("message"), text("hint"));
        (output.status.code().expect("a code"), text("reason"), next)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_made_placed_given_keys_and_seen_from_its_folder_without_any_flag() {
    let engine = Engine::start().await;
    let desk = Desk { engine: &engine, key: None };
    assert_eq!(desk.gets("tenant create acme --name Acme")[0]["display_name"], "Acme");
    assert_eq!(desk.gets("tenant show acme")[0]["tenant_id"], "acme");
    let tenants: Vec<_> = desk.gets("tenant list").iter().map(|t| t["tenant_id"].clone()).collect();
    assert_eq!(tenants, ["acme", "dev"]);

    assert_eq!(desk.gets("store register east --kind postgres")[0]["shard_count"], 0);
    let stores: Vec<_> =
        desk.gets("store list").iter().map(|s| (s["name"].clone(), s["kind"].clone())).collect();
    assert_eq!(stores, [("east".into(), "postgres".into()), ("local".into(), "sqlite".into())]);

    assert_eq!(desk.gets("placement set acme --store east")[0]["epoch"], 1);
    assert_eq!(desk.gets("placement set acme --store local")[0]["epoch"], 2, "the next one by itself");
    assert_eq!(desk.gets("placement set acme --store local --epoch 9")[0]["epoch"], 9);
    assert_eq!(desk.gets("placement show acme")[0]["store"], "local");
    assert_eq!(desk.gets("placement list").len(), 2);

    let key = desk.gets("key create --tenant acme --role client --role publisher --name mine --expires 90d");
    let (id, secret) = (key[0]["key_id"].as_str().expect("an id"), key[0]["secret"].as_str().expect("one"));
    assert!(key[0]["expires_at"].is_string());
    let listed = desk.gets("key list --tenant acme");
    assert_eq!((listed.len(), &listed[0]["key_id"]), (1, &key[0]["key_id"]));
    assert!(listed[0].get("secret").is_none());
    let tenant = Desk { engine: &engine, key: Some(secret.to_owned()) };
    assert_eq!(tenant.gets("key whoami")[0]["roles"], serde_json::json!(["client", "publisher"]));

    assert!(desk.gets(&format!("key revoke {id}"))[0]["revoked_at"].is_string());
    assert_eq!(tenant.is_refused("key whoami").1, "CREDENTIAL_INVALID");
    assert!(desk.gets("key list --tenant acme").is_empty(), "what has ended is not in the way");
    assert_eq!(desk.gets("key list --tenant acme --all").len(), 1);

    let fleet = desk.gets("fleet show");
    assert_eq!(
        (&fleet[0]["nodes"][0]["node_id"], &fleet[0]["nodes"][0]["live"]),
        (&"dev".into(), &true.into())
    );
    assert_eq!(
        (&fleet[0]["shards"][0]["store"], &fleet[0]["shards"][0]["node_id"]),
        (&"local".into(), &"dev".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_says_what_to_type_next() {
    let engine = Engine::start().await;
    let desk = Desk { engine: &engine, key: None };
    desk.reads("store register east --kind postgres");
    desk.reads("tenant create acme");
    desk.reads("placement set acme --store local --epoch 5");
    for (line, exit, reason, next) in [
        ("tenant show nobody", 3, "NOT_FOUND", "orch8 tenant list"),
        ("placement set nobody --store local", 3, "NOT_FOUND", "orch8 tenant create"),
        ("placement set acme --store west", 4, "STORE_UNSUPPORTED", "orch8 store register west --kind"),
        ("placement set acme --store local --epoch 5", 4, "VERSION_CONFLICT", "without --epoch"),
        ("placement show nobody", 3, "TENANT_NOT_PLACED", "orch8 placement set"),
        ("store register east --kind sqlite", 4, "ALREADY_EXISTS", "registered as postgres"),
        ("key create --role worker", 4, "INVALID_FIELD", "--tenant TENANT"),
        ("key create --role node --tenant acme", 4, "INVALID_FIELD", "do without"),
        ("key create --role worker --tenant nobody", 3, "NOT_FOUND", "orch8 tenant list"),
        ("key create --role node --certificate none.crt", 2, "USAGE", "none.crt"),
        ("key revoke 0123456789abcdef", 3, "NOT_FOUND", "orch8 key list"),
        ("tenant list --control-plane http://127.0.0.1:1 --key k", 5, "UNREACHABLE", "127.0.0.1:1"),
        ("tenant list --control-plane http://127.0.0.1:1", 6, "NO_KEY", "--key-file"),
        ("tenant list --control-plane http://10.1.1.1:1 --key k", 2, "USAGE", "--insecure"),
    ] {
        let refused = desk.is_refused(line);
        assert_eq!((refused.0, refused.1.as_str()), (exit, reason), "{line}: {}", refused.2);
        assert!(refused.2.contains(next), "{line}: {}", refused.2);
    }
    let client = Desk { engine: &engine, key: Some(engine.key("client")) };
    let refused = client.is_refused("tenant list");
    assert_eq!((refused.0, refused.1.as_str()), (6, "ROLE_MISSING"));
    assert!(refused.2.contains("orch8 key whoami"), "{}", refused.2);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_read_tables() {
    let engine = Engine::start().await;
    let desk = Desk { engine: &engine, key: None };
    for (line, headings, cells) in [
        ("tenant list", "TENANT", "dev"),
        ("store list", "STORE", "sqlite"),
        ("placement list", "EPOCH", "local"),
        ("key list", "ROLES", "operator,placement-admin"),
        ("fleet show", "OWNER", "0–3"),
    ] {
        let text = desk.reads(line);
        assert!(text.contains(headings) && text.contains(cells), "{line}:\n{text}");
    }
    assert!(desk.reads("key create --role node").contains("never again"));
}
