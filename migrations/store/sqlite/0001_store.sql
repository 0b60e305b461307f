-- A tenant store in one SQLite file.
--
-- Units: every instant is INTEGER milliseconds since 1970-01-01T00:00:00Z. Ids are the 16 bytes of a UUID, big-endian.
-- Digests are 32 bytes of SHA-256. JSON is TEXT and is never looked into here. `tenant_no` is this file's own number for
-- a tenant, so that narrow rows stay narrow. Narrow tables are clustered on their key (WITHOUT ROWID); wide ones are
-- appended by rowid, because a WAL is written in whole pages and appending keeps the pages of a commit few.

-- What the file says about itself: the schema's number and digest, the number of shards.
CREATE TABLE meta (
  key   TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Who may write here. The epoch only rises.
CREATE TABLE tenant_fences (
  tenant_no       INTEGER PRIMARY KEY,
  tenant_id       TEXT    NOT NULL,
  placement_epoch INTEGER NOT NULL CHECK (placement_epoch >= 0),
  mode            TEXT    NOT NULL CHECK (mode IN ('active', 'draining', 'sealed', 'guest')),
  weight          INTEGER NOT NULL CHECK (weight >= 1)
) STRICT;
CREATE UNIQUE INDEX tenant_fences_tenant ON tenant_fences (tenant_id);

-- Which node schedules a shard. `commit_seq` counts the write transactions of the lease's holders.
CREATE TABLE shard_leases (
  shard       INTEGER PRIMARY KEY,
  node        TEXT    NOT NULL,
  lease_epoch INTEGER NOT NULL,
  commit_seq  INTEGER NOT NULL
) STRICT;
INSERT INTO shard_leases (shard, node, lease_epoch, commit_seq)
VALUES (0, 'nobody', 0, 0), (1, 'nobody', 0, 0), (2, 'nobody', 0, 0), (3, 'nobody', 0, 0);

-- Published versions. `document` is the text as it was submitted, byte for byte.
CREATE TABLE sequences (
  tenant_no  INTEGER NOT NULL,
  id         BLOB    NOT NULL CHECK (length(id) = 16),
  namespace  TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  version    INTEGER NOT NULL CHECK (version >= 1),
  deprecated INTEGER NOT NULL CHECK (deprecated IN (0, 1)),
  sha256     BLOB    NOT NULL CHECK (length(sha256) = 32),
  created_at INTEGER NOT NULL,
  document   BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX sequences_id ON sequences (tenant_no, id);
CREATE UNIQUE INDEX sequences_version ON sequences (tenant_no, namespace, name, version DESC);
CREATE INDEX sequences_newest ON sequences (tenant_no, namespace, name, version DESC) WHERE deprecated = 0;

-- The listed part of an instance: written at birth, when a listed column changes, and at close; never for a turn.
-- status: 1 scheduled, 2 running, 3 waiting, 4 paused, 5 completed, 6 failed, 7 cancelled.
-- hot: 1 from the first turn until eviction or close, which is what a new owner has to load.
CREATE TABLE instances (
  id          BLOB    NOT NULL PRIMARY KEY,
  tenant_no   INTEGER NOT NULL,
  shard       INTEGER NOT NULL,
  status      INTEGER NOT NULL CHECK (status BETWEEN 1 AND 7),
  hot         INTEGER NOT NULL CHECK (hot IN (0, 1)),
  priority    INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 3),
  sequence_id BLOB    NOT NULL,
  namespace   TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  fire_at     INTEGER NOT NULL,
  closed_at   INTEGER
) STRICT, WITHOUT ROWID;
-- Never touched after birth, whatever happens to the instance.
CREATE INDEX instances_list ON instances (tenant_no, created_at DESC, id DESC);
-- Small: only what is open, only what people look for. A list by status probes these and merges.
CREATE INDEX instances_open ON instances (tenant_no, created_at DESC, id DESC) WHERE closed_at IS NULL;
CREATE INDEX instances_rare ON instances (tenant_no, status, created_at DESC, id DESC) WHERE status IN (4, 6, 7);
CREATE INDEX instances_hot ON instances (shard, id) WHERE hot = 1;

-- What an instance was born with; written once.
CREATE TABLE births (
  instance_id   BLOB NOT NULL,
  continuity_id BLOB NOT NULL,
  timezone      TEXT NOT NULL,
  data          TEXT NOT NULL,
  config        TEXT NOT NULL,
  metadata      TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX births_instance ON births (instance_id);

-- Why an instance ended badly; written once, at close.
CREATE TABLE errors (
  instance_id BLOB NOT NULL PRIMARY KEY,
  error       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per turn. Turn numbers of an instance have no gap: 0, 1, 2 …
CREATE TABLE journal (
  instance_id BLOB    NOT NULL,
  turn_no     INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  body        TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX journal_turns ON journal (instance_id, turn_no);

-- The newest snapshot of an instance: its state after `turn_no`. A short cut through the journal, never the truth.
CREATE TABLE snapshots (
  instance_id BLOB    NOT NULL,
  turn_no     INTEGER NOT NULL,
  body        TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX snapshots_instance ON snapshots (instance_id);

-- Instances that wait for their first turn. Leaves with the turn that answers it. later: 1 when it was not due at birth,
-- which are the few that somebody has to wake up for.
CREATE TABLE ready (
  shard       INTEGER NOT NULL,
  tenant_no   INTEGER NOT NULL,
  priority    INTEGER NOT NULL,
  due_at      INTEGER NOT NULL,
  instance_id BLOB    NOT NULL,
  later       INTEGER NOT NULL CHECK (later IN (0, 1)),
  PRIMARY KEY (shard, tenant_no, priority, due_at, instance_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ready_later ON ready (shard, due_at) WHERE later = 1;

-- Timers beyond the reach of the wheel in memory. Neither updated nor the truth: the engine ignores one that its
-- instance no longer waits for.
CREATE TABLE timers (
  shard       INTEGER NOT NULL,
  due_at      INTEGER NOT NULL,
  instance_id BLOB    NOT NULL,
  node        INTEGER NOT NULL,
  PRIMARY KEY (shard, due_at, instance_id, node)
) STRICT, WITHOUT ROWID;

-- Messages that no turn has absorbed yet. AUTOINCREMENT: a number is never used twice, so that a reader's cursor cannot
-- pass a row that comes later; both indexes end in it. name and payload belong to custom signals, reason or patch to the others.
CREATE TABLE inbox (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  shard       INTEGER NOT NULL,
  instance_id BLOB    NOT NULL,
  signal_id   TEXT    NOT NULL,
  kind        TEXT    NOT NULL CHECK (kind IN ('pause', 'resume', 'cancel', 'update_context', 'custom')),
  name        TEXT    NOT NULL,
  payload     TEXT    NOT NULL,
  at          INTEGER NOT NULL
) STRICT;
CREATE INDEX inbox_shard ON inbox (shard);
CREATE INDEX inbox_instance ON inbox (instance_id);

-- The one table for "only once". kind 1: a start, key = the idempotency key, body_sha256 = its body.
-- kind 2: a signal, key = the instance's 16 bytes and the signal id. Lives as long as the instance.
CREATE TABLE once (
  tenant_no   INTEGER NOT NULL,
  kind        INTEGER NOT NULL CHECK (kind IN (1, 2)),
  key         BLOB    NOT NULL,
  body_sha256 BLOB,
  instance_id BLOB    NOT NULL,
  PRIMARY KEY (tenant_no, kind, key)
) STRICT, WITHOUT ROWID;
