-- The fleet: stores by name, the processes that serve them, and who owns which shards.

-- Numbers that only rise. Raised in the transaction of what they count, so their order is the order of commits; and
-- whoever writes takes the row first, so the writers of one kind come one after another.
--   changes: what a data plane has to follow. fleet: nodes that came or left, refused leases. leases: who owns what.
CREATE TABLE counters (
    name  TEXT    PRIMARY KEY CHECK (name IN ('changes', 'fleet', 'leases')),
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counters (name, value) SELECT 'changes', coalesce(max(seq), 0) FROM changes;
INSERT INTO counters (name, value) VALUES ('fleet', 0), ('leases', 0);

-- Names only. The number of shards is the store's own, and is learnt from the first node that opened it.
CREATE TABLE stores (
    name        TEXT    PRIMARY KEY,
    kind        TEXT    NOT NULL CHECK (kind IN ('postgres', 'sqlite')),
    shard_count INTEGER NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each name; `process_id` is whoever has it now, `former_ids` the last sixteen that had it before, between
-- commas: none of them gets it back while the newest lives, or processes that were given one name would take it from each
-- other for ever. `stores` are names between commas.
CREATE TABLE nodes (
    node_id    TEXT    PRIMARY KEY,
    process_id TEXT    NOT NULL,
    former_ids TEXT,
    address    TEXT    NOT NULL,
    stores     TEXT    NOT NULL,
    joined_at  INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    left_at    INTEGER
) STRICT, WITHOUT ROWID;

-- The holder is a process, not only a name. `stored_epoch`: what a node found in the store, where that was higher.
CREATE TABLE shard_leases (
    store        TEXT    NOT NULL,
    shard        INTEGER NOT NULL,
    node_id      TEXT,
    process_id   TEXT,
    lease_epoch  INTEGER NOT NULL,
    stored_epoch INTEGER NOT NULL DEFAULT 0,
    since        INTEGER NOT NULL,
    PRIMARY KEY (store, shard)
) STRICT, WITHOUT ROWID;

-- How far each shard's owner was heard to have come. Beside the leases and not in them: every heartbeat writes here.
-- `fell_from`: the number that stood here before the store told a lower one under the same epoch.
CREATE TABLE confirmations (
    store       TEXT    NOT NULL,
    shard       INTEGER NOT NULL,
    lease_epoch INTEGER NOT NULL,
    commit_seq  INTEGER NOT NULL,
    fell_from   INTEGER NOT NULL,
    PRIMARY KEY (store, shard)
) STRICT, WITHOUT ROWID;

-- Which process of the control plane gives shards away. `since`: beginning of its unbroken term.
CREATE TABLE leader (
    row_no     INTEGER PRIMARY KEY CHECK (row_no = 1),
    holder     TEXT    NOT NULL,
    epoch      INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

INSERT INTO leader (row_no, holder, epoch, since, expires_at) VALUES (1, '', 0, 0, 0);
