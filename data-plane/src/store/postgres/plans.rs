//! Every statement uses the indexes it was written for, each with a condition, and no table is read whole.
//!
//! A plan of an owner's statement is made once, without knowing its arguments, and is kept while tables grow: so it has
//! to be right on a store that was just born, and on one that was seen empty. Both on a full one, and there also with
//! the planner left to itself.

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, Row as _};

use super::{
    PostgresStore, claim, commit, fence, lease, list, load, mail, open, partition, rings, sequence, start,
    timer,
};

/// Name, statement, and the indexes that it must look things up with. `*` stands for a partition's part of a name.
type Statement = (&'static str, &'static str, &'static [&'static str]);

fn owners() -> Vec<Statement> {
    vec![
        ("lease assert", lease::ASSERT, &["shard_leases_pkey"]),
        ("lease raise", lease::RAISE, &["shard_leases_pkey"]),
        ("lease", lease::LEASE, &["shard_leases_pkey"]),
        ("ring lease", rings::LEASE, &["shard_leases_pkey"]),
        ("hot", lease::HOT, &["instances_*_shard_id_idx"]),
        ("set hot", lease::SET_HOT, &["instances_*_pkey", "journal_*_pkey"]),
        ("fence assert", fence::ASSERT, &["tenant_fences_tenant"]),
        ("turn lock", commit::LOCK, &["instances_*_pkey"]),
        ("turn append", commit::APPEND, &["instances_*_pkey", "journal_*_pkey", "inbox_instance"]),
        ("turn append judged", commit::APPEND_JUDGED, &[]),
        ("turn facts", commit::FACTS, &["instances_*_pkey", "journal_*_pkey"]),
        ("turn mail", commit::MAIL, &["inbox_instance"]),
        ("turn change", commit::CHANGE, &["instances_*_pkey"]),
        ("turn snapshot", commit::SNAPSHOT, &[]),
        (
            "turn ready",
            commit::READY,
            &["instances_*_pkey", "ready_*_shard_tenant_no_priority_due_at_instance_id_idx"],
        ),
        (
            "turn ready, recent",
            commit::READY_RECENT,
            &["instances_*_pkey", "ready_*_shard_tenant_no_priority_due_at_instance_id_idx"],
        ),
        ("turn timers", commit::TIMERS, &[]),
        ("turn absorb", commit::ABSORB, &["inbox_*"]),
        (
            "claim",
            claim::CLAIM,
            &["tenant_fences_tenant", "ready_*_shard_tenant_no_priority_due_at_instance_id_idx"],
        ),
        (
            "ready tenants",
            claim::TENANTS,
            &["tenant_fences_pkey", "ready_*_shard_tenant_no_priority_due_at_instance_id_idx"],
        ),
        ("next ready", claim::NEXT, &["ready_*_shard_due_at_idx", "tenant_fences_pkey"]),
        ("due timers", timer::DUE, &["timers_*_pkey"]),
        ("forget timers", timer::FORGET, &["timers_*_pkey"]),
        ("mail of shard", mail::OF_SHARD, &["inbox_pkey", "tenant_fences_pkey"]),
        ("mail of instance", mail::OF_INSTANCE, &["inbox_instance", "tenant_fences_pkey"]),
        ("load", load::MANY, LOADED),
        ("ring", rings::WHERE_IS, &["rings_pkey"]),
        ("ring moves on", rings::MOVE_ON, &["rings_pkey"]),
        ("partitions one at a time", partition::ONE_AT_A_TIME, &["rings_pkey"]),
    ]
}

fn clients() -> Vec<Statement> {
    vec![
        ("fence assert, waiting", fence::ASSERT_WAITING, &["tenant_fences_tenant"]),
        ("fence stored", fence::STORED, &["tenant_fences_tenant"]),
        ("fence raise", fence::RAISE, &["tenant_fences_tenant"]),
        ("fences", fence::LIST, &["tenant_fences_tenant"]),
        ("send target", mail::TARGET, &["instances_*_pkey"]),
        ("send known", mail::KNOWN, &["once_pkey"]),
        ("send pending", mail::PENDING, &["inbox_instance"]),
        ("send number", mail::NUMBER, &["mail_numbers_pkey"]),
        ("send inbox", mail::INBOX, &[]),
        ("send once", mail::ONCE, &[]),
        ("start known", start::KNOWN, &["once_pkey"]),
        ("start once", start::ONCE, &[]),
        ("start instance", start::INSTANCE, &[]),
        ("start listed", start::LISTED, &[]),
        ("start birth", start::BIRTH, &[]),
        ("start ready", start::READY, &[]),
        ("load one", load::LOAD_ONE, LOADED),
        ("instance", load::ONE, &["instances_*_pkey", "births_*_pkey", "tenant_fences_*"]),
        ("turns", load::TURNS, &["journal_*_pkey", "instances_*_pkey", "tenant_fences_*"]),
        ("list all", list::ALL, LISTED),
        ("list completed", list::COMPLETED, LISTED),
        ("list open", list::OPEN, OPEN),
        ("list paused", list::PAUSED, RARE),
        ("list failed", list::FAILED, RARE),
        ("list cancelled", list::CANCELLED, RARE),
        ("sequence highest", sequence::HIGHEST, &["sequences_version"]),
        ("sequence by id", sequence::BY_ID, &["sequences_*"]),
        ("sequence by version", sequence::BY_VERSION, &["sequences_version"]),
        ("sequence insert", sequence::INSERT, &[]),
        ("sequence read", sequence::READ_ID, &["sequences_*", "tenant_fences_*"]),
        ("sequence named", sequence::READ_VERSION, &["sequences_version", "tenant_fences_*"]),
        ("sequence newest", sequence::READ_NEWEST, &["sequences_newest", "tenant_fences_*"]),
        ("sequences of a name", sequence::LIST_SAME_NAME, &["sequences_newest", "tenant_fences_*"]),
        ("sequences of a namespace", sequence::LIST_NAMESPACE, &["sequences_newest", "tenant_fences_*"]),
        ("sequences beyond", sequence::LIST_BEYOND, &["sequences_newest", "tenant_fences_*"]),
    ]
}

const LOADED: &[&str] =
    &["instances_*_pkey", "births_*_pkey", "snapshots_*_pkey", "journal_*_pkey", "tenant_fences_*"];
const LISTED: &[&str] =
    &["listed_*_pkey", "instances_*_pkey", "births_*_pkey", "sequences_*", "tenant_fences_tenant"];
const OPEN: &[&str] =
    &["instances_*_tenant_no_created_at_id_idx", "births_*_pkey", "sequences_*", "tenant_fences_tenant"];
const RARE: &[&str] = &[
    "instances_*_tenant_no_status_created_at_id_idx",
    "births_*_pkey",
    "sequences_*",
    "tenant_fences_tenant",
];

/// Indexes that any statement may use: of tables with one index.
const ALWAYS: &[&str] = &["shard_leases_pkey", "rings_pkey", "fence_calls_pkey"];
/// The planner may read these whole, left to itself: a page or two that never grow.
const SMALL: &[&str] = &["rings", "fence_calls", "mail_numbers", "shard_leases"];

/// Five days of instances, a third of them open, few of them hot; a backlog of one big tenant and many small ones.
const FILL: &str = "
    INSERT INTO tenant_fences (tenant_id, placement_epoch, mode, weight)
      SELECT 'tenant-' || n, 1, 'active', 1 FROM generate_series(1, 2000) n;
    INSERT INTO instances (bucket, id, tenant_no, shard, status, hot, priority, sequence_id, namespace, created_at, fire_at, closed_at)
      SELECT (('x' || substr(id::text, 1, 8) || substr(id::text, 10, 4))::bit(48)::bigint / 86400000)::int, id, n % 100 + 1, n % 64,
        CASE WHEN n % 3 = 0 THEN 3 WHEN n % 50 = 1 THEN 6 ELSE 5 END, n % 60 = 0, n % 4, gen_random_uuid(), 'default', n, n,
        CASE WHEN n % 3 = 0 THEN NULL ELSE n END
      FROM (
        SELECT n, (lpad(to_hex(day::bigint * 86400000 + n), 12, '0') || '7000' || lpad(to_hex(n), 16, '0'))::uuid AS id
        FROM generate_series(1, 6000) n, (SELECT 1 UNION SELECT generate_series(today, today + 3)) days (day)
      ) made;
    INSERT INTO listed (created_at, bucket, tenant_no, instance_id) SELECT created_at, bucket, tenant_no, id FROM instances WHERE tenant_no > 0;
    INSERT INTO births SELECT bucket, id, id, 'UTC', '{}', '{}', '{}' FROM instances WHERE tenant_no > 0;
    INSERT INTO journal (turn_no, at, bucket, instance_id, body)
      SELECT turn, 1, bucket, id, '{}' FROM instances, generate_series(0, 2) turn;
    INSERT INTO snapshots (turn_no, bucket, instance_id, body) SELECT 1, bucket, id, '{}' FROM instances;
    INSERT INTO ready (due_at, tenant_no, shard, priority, gen, later, instance_id)
      SELECT n, CASE WHEN n % 2 = 0 THEN 1 ELSE n % 2000 + 1 END, n % 64, n % 4, n % 8, n % 10 = 0, gen_random_uuid()
      FROM generate_series(1, 40000) n;
    INSERT INTO timers (due_at, node, shard, slot, instance_id)
      SELECT n, 1, n % 64, n % 9, gen_random_uuid() FROM generate_series(1, 30000) n;
    INSERT INTO inbox (seq, at, tenant_no, shard, instance_id, signal_id, kind, name, payload)
      SELECT n, 1, 1, n % 64, gen_random_uuid(), 's', 'pause', '', '' FROM generate_series(1, 20000) n;
    INSERT INTO once (tenant_no, kind, key, instance_id)
      SELECT n % 100 + 1, n % 2 + 1, int4send(n), gen_random_uuid() FROM generate_series(1, 20000) n;
    INSERT INTO sequences (created_at, tenant_no, version, id, deprecated, namespace, name, sha256, document)
      SELECT 1, n % 100 + 1, n / 1000 + 1, gen_random_uuid(), n % 7 = 0, 'ns' || n % 3, 'name-' || n % 1000 / 100, sha256(int4send(n)), ''
      FROM generate_series(1, 20000) n
      ON CONFLICT DO NOTHING;
    ANALYZE;";

#[tokio::test]
async fn every_statement_uses_its_index() {
    let url = orch8_test_postgres::database();
    PostgresStore::open(&url).await.expect("a store").close().await;
    let ours = |mode| open::options(&url).expect("options").options([mode]);
    let mut owner = ours(open::OWNERS).connect().await.expect("a connection");
    let mut client = ours(open::CLIENTS).connect().await.expect("a connection");
    let today = "SELECT ((extract(epoch FROM now()) * 1000)::bigint / 86400000)::text";
    let today = run(&mut owner, today).await.remove(0);
    let mut wrong = Vec::new();
    // Just born; seen empty, as a nightly VACUUM ANALYZE sees the partitions of tomorrow; full.
    for state in ["SELECT 'young'", "ANALYZE", &FILL.replace("today", &today)] {
        run(&mut owner, state).await;
        for statement in owners() {
            let plan = plan(&mut owner, statement.1, &today).await;
            wrong
                .extend(mistakes(&plan, statement).map(|mistake| format!("{:.20}: {mistake}", state.trim())));
        }
    }
    let mut planner = PgConnection::connect(&url).await.expect("a connection");
    run(&mut planner, "SET plan_cache_mode = force_generic_plan; SET jit = off").await;
    for statement in clients() {
        wrong.extend(mistakes(&plan(&mut client, statement.1, &today).await, statement));
    }
    for (name, sql, _) in owners().into_iter().chain(clients()) {
        let plan = plan(&mut planner, sql, &today).await;
        let large = scanned(&plan).filter(|table| !SMALL.contains(table));
        wrong.extend(large.map(|table| format!("{name}: reads all of {table}\n{}", plan.join("\n"))));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn mistakes(plan: &[String], (name, _, indexes): Statement) -> impl Iterator<Item = String> {
    let text = plan.join("\n");
    let missing = indexes.iter().filter(|index| !used(plan).any(|used| is(used, index)));
    let missing = missing.map(|index| format!("does not use {index}"));
    let other = used(plan).filter(|used| !indexes.iter().chain(ALWAYS).any(|index| is(used, index)));
    let other = other.map(|index| format!("uses {index}"));
    let whole =
        plan.windows(2).filter(|lines| lines[0].contains(" using ") && !lines[1].contains("Index Cond"));
    let whole = whole.map(|lines| format!("reads a whole index:{}", lines[0]));
    let scanned = scanned(plan).map(|table| format!("reads all of {table}"));
    let all: Vec<String> = missing.chain(other).chain(whole).chain(scanned).collect();
    all.into_iter().map(move |mistake| format!("{name} {mistake}\n{text}"))
}

/// Indexes that a plan looks things up with.
fn used(plan: &[String]) -> impl Iterator<Item = &str> {
    plan.iter().filter_map(|line| {
        let (kind, rest) = line.split_once(" using ")?;
        kind.contains("Index").then(|| rest.split(' ').next())?
    })
}

/// Whether a name is the one meant.
fn is(name: &str, index: &str) -> bool {
    match index.split_once('*') {
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| rest.ends_with(tail)),
        None => name == index,
    }
}

/// Tables that a plan reads from end to end.
fn scanned(plan: &[String]) -> impl Iterator<Item = &str> {
    let table = |line: &'_ String| line.split_once("Seq Scan on ").map(|(before, _)| before.len() + 12);
    plan.iter().filter_map(move |line| line.get(table(line)?..)?.split(' ').next())
}

/// The generic plan, with arguments of which none rules out a partition of `today`.
async fn plan(conn: &mut PgConnection, sql: &str, today: &str) -> Vec<String> {
    run(conn, &format!("DEALLOCATE ALL; PREPARE s AS {sql}")).await;
    let types = "SELECT unnest(parameter_types)::text FROM pg_prepared_statements";
    let arguments: Vec<String> = run(conn, types)
        .await
        .iter()
        .map(|of| match of.as_str() {
            "bigint" | "integer" | "smallint" => today.to_owned(),
            "uuid" => "'00000000-0000-0000-0000-000000000000'".to_owned(),
            "boolean" => "true".to_owned(),
            "bigint[]" => "'{3}'".to_owned(),
            of if of.ends_with("[]") => "'{}'".to_owned(),
            _ => "''".to_owned(),
        })
        .collect();
    let arguments = if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(", ")) };
    run(conn, &format!("EXPLAIN (COSTS OFF) EXECUTE s{arguments}")).await
}

async fn run(conn: &mut PgConnection, sql: &str) -> Vec<String> {
    let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(conn).await;
    rows.expect(sql).iter().map(|row| row.get::<String, _>(0)).collect()
}
