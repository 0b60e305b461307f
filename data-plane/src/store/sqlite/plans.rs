//! Every statement uses the index it was written for. A plan that reads a whole table is a mistake whatever its speed on
//! a test's few rows.

use std::path::Path;

use sqlx::{AssertSqlSafe, Row as _, SqlitePool, sqlite::SqliteConnectOptions};

use super::{SqliteStore, claim, commit, fence, lease, list, load, mail, sequence, start, timer};

/// What a plan may read through: rows that came with the statement, the four leases, what a subquery with a limit found.
const MAY_SCAN: &[&str] = &["v", "walk", "mine", "shard_leases", "json_each", "256", "(subquery"];

/// Name, statement, and the searches its plan must have.
fn statements() -> Vec<(&'static str, String, &'static [&'static str])> {
    let batch = |batch: &'static super::batch::Batch| batch.widest().to_string();
    let text = str::to_owned;
    vec![
        (
            "turn append",
            batch(&commit::APPEND),
            &[
                "i USING PRIMARY KEY (id=?)",
                "f USING INTEGER PRIMARY KEY (rowid=?)",
                "m USING COVERING INDEX inbox_instance (instance_id=?)",
            ],
        ),
        (
            "turns appended",
            text(commit::APPENDED),
            &["journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
        ),
        (
            "turn facts",
            batch(&commit::FACTS),
            &[
                "i USING PRIMARY KEY (id=?)",
                "f USING INTEGER PRIMARY KEY (rowid=?)",
                "j USING COVERING INDEX journal_turns (instance_id=?)",
            ],
        ),
        ("turn mail", batch(&commit::MAIL), &["m USING COVERING INDEX inbox_instance (instance_id=?)"]),
        ("turn append judged", batch(&commit::APPEND_JUDGED), &[]),
        ("turn open", batch(&commit::OPEN), &["instances USING PRIMARY KEY (id=?)"]),
        ("turn close", batch(&commit::CLOSE), &["instances USING PRIMARY KEY (id=?)"]),
        ("turn error", batch(&commit::ERROR), &[]),
        ("turn snapshot", batch(&commit::SNAPSHOT), &[]),
        (
            "turn ready",
            batch(&commit::READY),
            &[
                "ready USING PRIMARY KEY (shard=? AND tenant_no=? AND priority=? AND due_at=? AND instance_id=?)",
            ],
        ),
        ("turn timers", batch(&commit::TIMERS), &[]),
        ("turn absorb", batch(&commit::ABSORB), &["inbox USING INTEGER PRIMARY KEY (rowid=?)"]),
        ("lease raise", text(lease::RAISE), &["shard_leases USING INTEGER PRIMARY KEY (rowid=?)"]),
        ("lease assert", batch(&lease::ASSERT), &[]),
        ("hot", text(lease::HOT), &["instances USING COVERING INDEX instances_hot (shard=? AND id>?)"]),
        ("set hot", batch(&lease::SET_HOT), &["instances USING PRIMARY KEY (id=?)"]),
        (
            "load rows",
            batch(&load::ROWS),
            &[
                "i USING PRIMARY KEY (id=?)",
                "b USING INDEX births_instance",
                "s USING INDEX snapshots_instance",
            ],
        ),
        ("load tails", batch(&load::TAILS), &["j USING INDEX journal_turns (instance_id=? AND turn_no>?)"]),
        ("instance", text(load::ONE), &["i USING PRIMARY KEY (id=?)", "f USING INDEX tenant_fences_tenant"]),
        ("turns", text(load::TURNS), &["j USING INDEX journal_turns (instance_id=? AND turn_no>?)"]),
        (
            "claim",
            text(claim::CLAIM),
            &["r USING PRIMARY KEY (shard=? AND tenant_no=? AND priority=? AND due_at<?)"],
        ),
        (
            "ready tenants",
            text(claim::TENANTS),
            &[
                "r USING PRIMARY KEY (shard=? AND tenant_no>?)",
                "r EXISTS USING PRIMARY KEY (shard=? AND tenant_no=? AND priority=? AND due_at<?)",
            ],
        ),
        ("next ready", text(claim::NEXT), &["r USING COVERING INDEX ready_later (shard=? AND due_at>?)"]),
        ("due timers", text(timer::DUE), &["t USING PRIMARY KEY (shard=? AND due_at<?)"]),
        (
            "forget timers",
            batch(&timer::FORGET),
            &["timers USING PRIMARY KEY (shard=? AND due_at=? AND instance_id=? AND node=?)"],
        ),
        ("mail of shard", text(mail::OF_SHARD), &["m USING INDEX inbox_shard (shard=? AND rowid>?)"]),
        ("mail of instance", text(mail::OF_INSTANCE), &["m USING INDEX inbox_instance (instance_id=?)"]),
        (
            "send target",
            batch(&mail::TARGET),
            &["i USING PRIMARY KEY (id=?)", "o USING PRIMARY KEY (tenant_no=? AND kind=? AND key=?)"],
        ),
        ("send pending", batch(&mail::PENDING), &["m USING COVERING INDEX inbox_instance (instance_id=?)"]),
        ("start known", batch(&start::KNOWN), &["o USING PRIMARY KEY (tenant_no=? AND kind=? AND key=?)"]),
        (
            "list all",
            text(list::ALL),
            &["i USING INDEX instances_list (tenant_no=? AND created_at>? AND (created_at,id)<(?,?))"],
        ),
        (
            "list completed",
            text(list::COMPLETED),
            &["i USING INDEX instances_list (tenant_no=? AND created_at>? AND (created_at,id)<(?,?))"],
        ),
        (
            "list open",
            text(list::OPEN),
            &["i USING INDEX instances_open (tenant_no=? AND created_at>? AND (created_at,id)<(?,?))"],
        ),
        (
            "list paused",
            text(list::PAUSED),
            &[
                "i USING INDEX instances_rare (tenant_no=? AND status=? AND created_at>? AND (created_at,id)<(?,?))",
            ],
        ),
        (
            "list failed",
            text(list::FAILED),
            &[
                "i USING INDEX instances_rare (tenant_no=? AND status=? AND created_at>? AND (created_at,id)<(?,?))",
            ],
        ),
        (
            "list cancelled",
            text(list::CANCELLED),
            &[
                "i USING INDEX instances_rare (tenant_no=? AND status=? AND created_at>? AND (created_at,id)<(?,?))",
            ],
        ),
        ("sequence highest", text(sequence::HIGHEST), &["sequences USING INDEX sequences_version"]),
        ("sequence by id", text(sequence::BY_ID), &["sequences USING INDEX sequences_id"]),
        ("sequence by version", text(sequence::BY_VERSION), &["sequences USING INDEX sequences_version"]),
        ("sequence read", text(sequence::READ_ID), &["s USING INDEX sequences_id (tenant_no=? AND id=?)"]),
        (
            "sequence named",
            text(sequence::READ_VERSION),
            &["s USING INDEX sequences_version (tenant_no=? AND namespace=? AND name=? AND version=?)"],
        ),
        ("sequence newest", text(sequence::READ_NEWEST), &["s USING INDEX sequences_newest"]),
        ("sequences of a name", text(sequence::LIST_SAME_NAME), &["s USING INDEX sequences_newest"]),
        ("sequences of a namespace", text(sequence::LIST_NAMESPACE), &["s USING INDEX sequences_newest"]),
        ("sequences beyond", text(sequence::LIST_BEYOND), &["s USING INDEX sequences_newest"]),
        ("fence assert", batch(&fence::ASSERT), &["f USING INDEX tenant_fences_tenant (tenant_id=?)"]),
        (
            "fence stored",
            text(fence::STORED),
            &["tenant_fences USING INDEX tenant_fences_tenant (tenant_id=?)"],
        ),
        ("fences", text(fence::LIST), &["tenant_fences USING INDEX tenant_fences_tenant (tenant_id>?)"]),
    ]
}

/// May sort: one page's or one scan's worth of rows that no index has in this order.
const MAY_SORT: &[&str] = &["ready tenants"];

#[tokio::test]
async fn every_statement_uses_its_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    SqliteStore::open(&path).await.expect("a store").close().await;
    let pool = connect(&path).await;
    let mut wrong = Vec::new();
    for (name, sql, searches) in statements() {
        let plan = plan(&pool, &sql).await;
        for search in searches {
            if !plan.iter().any(|line| line.contains(&format!("SEARCH {search}"))) {
                wrong.push(format!("{name}: no {search:?} in {plan:#?}"));
            }
        }
        for line in &plan {
            let scanned = line.strip_prefix("SCAN ").and_then(|rest| rest.split([' ', '-']).next());
            if scanned.is_some_and(|table| !MAY_SCAN.contains(&table)) {
                wrong.push(format!("{name}: {line}"));
            }
            if line.contains("TEMP B-TREE") && !MAY_SORT.contains(&name) {
                wrong.push(format!("{name}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn connect(path: &Path) -> SqlitePool {
    SqlitePool::connect_with(SqliteConnectOptions::new().filename(path)).await.expect("the file")
}

async fn plan(pool: &SqlitePool, sql: &str) -> Vec<String> {
    let rows = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).fetch_all(pool).await;
    rows.expect(sql).iter().map(|row| row.get::<String, _>("detail")).collect()
}
