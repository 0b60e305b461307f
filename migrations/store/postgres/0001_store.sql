-- A tenant store in one Postgres database.
--
-- Units: every instant is bigint milliseconds since 1970-01-01T00:00:00Z. Digests are 32 bytes of SHA-256. JSON is text
-- and is never looked into here; what may hold U+0000, which text cannot, is bytea. Texts that are keys or are put in
-- order are compared byte for byte (COLLATE "C"). `tenant_no` is this store's own number for a tenant, so that narrow
-- rows stay narrow. Wide columns come first, so that no row is padded.
--
-- `bucket` is the day on which an instance was born, read from its own id: the first 48 bits of a UUIDv7 are
-- milliseconds. A look-up by id needs no other key, and a day that is over and done with is dropped as one partition.
-- Partitions of days are made ahead; whatever has none goes into the default one, so that no id can fail.

-- What the database says about itself: whose it is, the schema's number and digest, the store's identity and the number
-- of shards.
CREATE TABLE meta (
  key   text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);
INSERT INTO meta (key, value) VALUES ('room', 'store'), ('store', gen_random_uuid()::text), ('shards', '64');

-- Who may write here. The epoch only rises. A writer locks its tenants' rows FOR SHARE; half of each page is free, so
-- that a change stays on its page.
CREATE TABLE tenant_fences (
  placement_epoch bigint  NOT NULL CHECK (placement_epoch >= 0),
  weight          bigint  NOT NULL CHECK (weight >= 1),
  tenant_no       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  mode            text    NOT NULL CHECK (mode IN ('active', 'draining', 'sealed', 'guest')),
  tenant_id       text    COLLATE "C" NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX tenant_fences_tenant ON tenant_fences (tenant_id);

-- Fences that somebody waits to change. Sharers let a waiting writer wait for ever; those who see its call here stand
-- back until it is done, or until the call is over.
CREATE TABLE fence_calls (
  tenant_id text   COLLATE "C" PRIMARY KEY,
  until     timestamptz NOT NULL
);

-- Which node schedules a shard. `commit_seq` counts the write transactions of the lease's holders: raising it is the
-- lock that every one of them takes first. No index but the key, and room on the page for its next versions.
CREATE TABLE shard_leases (
  lease_epoch bigint   NOT NULL,
  commit_seq  bigint   NOT NULL,
  shard       smallint PRIMARY KEY,
  node        text     NOT NULL
) WITH (fillfactor = 20);
INSERT INTO shard_leases (shard, node, lease_epoch, commit_seq) SELECT n, 'nobody', 0, 0 FROM generate_series(0, 63) n;

-- Published versions. `document` is the text as it was submitted, byte for byte.
CREATE TABLE sequences (
  created_at bigint  NOT NULL,
  tenant_no  integer NOT NULL,
  version    integer NOT NULL CHECK (version >= 1),
  id         uuid    NOT NULL,
  deprecated boolean NOT NULL,
  namespace  text    COLLATE "C" NOT NULL,
  name       text    COLLATE "C" NOT NULL,
  sha256     bytea   NOT NULL CHECK (length(sha256) = 32),
  document   bytea   NOT NULL
);
CREATE UNIQUE INDEX sequences_id ON sequences (tenant_no, id);
CREATE UNIQUE INDEX sequences_version ON sequences (tenant_no, namespace, name, version DESC);
CREATE INDEX sequences_newest ON sequences (tenant_no, namespace, name, version DESC) WHERE NOT deprecated;

-- The listed part of an instance: written at birth, when a listed column changes, and at close; never for a turn.
-- status: 1 scheduled, 2 running, 3 waiting, 4 paused, 5 completed, 6 failed, 7 cancelled.
-- hot: true from the first turn until eviction or close, which is what a new owner has to load.
CREATE TABLE instances (
  created_at  bigint   NOT NULL,
  fire_at     bigint   NOT NULL,
  closed_at   bigint,
  bucket      integer  NOT NULL,
  tenant_no   integer  NOT NULL,
  shard       smallint NOT NULL,
  status      smallint NOT NULL CHECK (status BETWEEN 1 AND 7),
  priority    smallint NOT NULL CHECK (priority BETWEEN 0 AND 3),
  hot         boolean  NOT NULL,
  id          uuid     NOT NULL,
  sequence_id uuid     NOT NULL,
  namespace   text     COLLATE "C" NOT NULL,
  error       text,
  PRIMARY KEY (id, bucket)
) PARTITION BY RANGE (bucket);
-- Small: only what is open, only what people look for, and what an owner has in memory. A list by status probes the
-- first two and merges. No index but the key holds all rows: on a young partition the planner would look ids up in it.
CREATE INDEX instances_open ON instances (tenant_no, created_at DESC, id DESC) WHERE closed_at IS NULL;
CREATE INDEX instances_rare ON instances (tenant_no, status, created_at DESC, id DESC) WHERE status IN (4, 6, 7);
CREATE INDEX instances_hot ON instances (shard, id) WHERE hot;
CREATE TABLE instances_rest PARTITION OF instances DEFAULT;
-- Nobody's: a planner that sees no row at all finds reading everything as good as looking something up, and its plan is
-- kept while the table grows.
INSERT INTO instances (created_at, fire_at, closed_at, bucket, tenant_no, shard, status, priority, hot, id, sequence_id, namespace)
SELECT 0, 0, 0, 0, 0, 0, 5, 0, false, lpad(to_hex(n), 32, '0')::uuid, lpad('', 32, '0')::uuid, '' FROM generate_series(1, 1000) n;

-- All instances of a tenant by age. A table of its own, not an index of the instances: that would be written again
-- with each version of a row, and nothing in it ever changes.
CREATE TABLE listed (
  created_at  bigint  NOT NULL,
  bucket      integer NOT NULL,
  tenant_no   integer NOT NULL,
  instance_id uuid    NOT NULL,
  PRIMARY KEY (tenant_no, created_at, instance_id, bucket)
) PARTITION BY RANGE (bucket);
CREATE TABLE listed_rest PARTITION OF listed DEFAULT;

-- What an instance was born with; written once.
CREATE TABLE births (
  bucket        integer NOT NULL,
  instance_id   uuid    NOT NULL,
  continuity_id uuid    NOT NULL,
  timezone      text    NOT NULL,
  data          text    NOT NULL,
  config        text    NOT NULL,
  metadata      text    NOT NULL,
  PRIMARY KEY (instance_id, bucket)
) PARTITION BY RANGE (bucket);
CREATE TABLE births_rest PARTITION OF births DEFAULT;
INSERT INTO births (bucket, instance_id, continuity_id, timezone, data, config, metadata)
SELECT bucket, id, id, '', '', '', '' FROM instances;

-- One row per turn. Turn numbers of an instance have no gap: 0, 1, 2 …
CREATE TABLE journal (
  turn_no     bigint  NOT NULL,
  at          bigint  NOT NULL,
  bucket      integer NOT NULL,
  instance_id uuid    NOT NULL,
  body        text    NOT NULL,
  PRIMARY KEY (instance_id, turn_no, bucket)
) PARTITION BY RANGE (bucket);
CREATE TABLE journal_rest PARTITION OF journal DEFAULT;

-- The newest snapshot of an instance: its state after `turn_no`. A short cut through the journal, never the truth.
CREATE TABLE snapshots (
  turn_no     bigint  NOT NULL,
  bucket      integer NOT NULL,
  instance_id uuid    NOT NULL,
  body        text    NOT NULL,
  PRIMARY KEY (instance_id, bucket)
) PARTITION BY RANGE (bucket);
CREATE TABLE snapshots_rest PARTITION OF snapshots DEFAULT;

-- Where the rings stand. ready: the generation that takes new rows, and since when. timers: the day of slot
-- `position` mod 8, from which on days have slots.
CREATE TABLE rings (
  position bigint NOT NULL,
  since    bigint NOT NULL,
  ring     text   COLLATE "C" PRIMARY KEY
) WITH (fillfactor = 20);
INSERT INTO rings (ring, position, since) VALUES ('ready', 0, 0), ('timers', 0, 0);

-- Instances that wait for their first turn. Leaves with the turn that answers it. later: it was not due at birth, which
-- are the few that somebody has to wake up for. A ring of eight generations: rows come and go so fast that what is left
-- of dead ones would slow every look, so a generation is emptied as a whole when its turn comes.
CREATE TABLE ready (
  due_at      bigint   NOT NULL,
  tenant_no   integer  NOT NULL,
  shard       smallint NOT NULL,
  priority    smallint NOT NULL,
  gen         smallint NOT NULL,
  later       boolean  NOT NULL,
  instance_id uuid     NOT NULL
) PARTITION BY LIST (gen);
CREATE INDEX ready_claim ON ready (shard, tenant_no, priority DESC, due_at, instance_id);
CREATE INDEX ready_later ON ready (shard, due_at) WHERE later;
CREATE TABLE ready_0 PARTITION OF ready FOR VALUES IN (0);
CREATE TABLE ready_1 PARTITION OF ready FOR VALUES IN (1);
CREATE TABLE ready_2 PARTITION OF ready FOR VALUES IN (2);
CREATE TABLE ready_3 PARTITION OF ready FOR VALUES IN (3);
CREATE TABLE ready_4 PARTITION OF ready FOR VALUES IN (4);
CREATE TABLE ready_5 PARTITION OF ready FOR VALUES IN (5);
CREATE TABLE ready_6 PARTITION OF ready FOR VALUES IN (6);
CREATE TABLE ready_7 PARTITION OF ready FOR VALUES IN (7);

-- Timers beyond the reach of the wheel in memory. Never the truth: the engine ignores one that its instance no longer
-- waits for. A ring of eight slots, one for each of the next days, and slot 8 for whatever is further away.
CREATE TABLE timers (
  due_at      bigint   NOT NULL,
  node        bigint   NOT NULL,
  shard       smallint NOT NULL,
  slot        smallint NOT NULL,
  instance_id uuid     NOT NULL,
  PRIMARY KEY (shard, due_at, instance_id, node, slot)
) PARTITION BY LIST (slot);
CREATE TABLE timers_0 PARTITION OF timers FOR VALUES IN (0);
CREATE TABLE timers_1 PARTITION OF timers FOR VALUES IN (1);
CREATE TABLE timers_2 PARTITION OF timers FOR VALUES IN (2);
CREATE TABLE timers_3 PARTITION OF timers FOR VALUES IN (3);
CREATE TABLE timers_4 PARTITION OF timers FOR VALUES IN (4);
CREATE TABLE timers_5 PARTITION OF timers FOR VALUES IN (5);
CREATE TABLE timers_6 PARTITION OF timers FOR VALUES IN (6);
CREATE TABLE timers_7 PARTITION OF timers FOR VALUES IN (7);
CREATE TABLE timers_8 PARTITION OF timers FOR VALUES IN (8);

-- Messages that no turn has absorbed yet. name and payload belong to custom signals, reason or patch to the others.
CREATE TABLE inbox (
  seq         bigint   NOT NULL,
  at          bigint   NOT NULL,
  tenant_no   integer  NOT NULL,
  shard       smallint NOT NULL,
  instance_id uuid     NOT NULL,
  signal_id   text     NOT NULL,
  kind        text     NOT NULL CHECK (kind IN ('pause', 'resume', 'cancel', 'update_context', 'custom')),
  name        bytea    NOT NULL,
  payload     bytea    NOT NULL,
  PRIMARY KEY (shard, seq)
);
CREATE INDEX inbox_instance ON inbox (instance_id, seq);

-- The last number given to a message of a shard. A row and its lock, not a sequence: who gets a number commits before
-- the next one is given, so that numbers are commit order and a reader's cursor never passes a row that comes later.
CREATE TABLE mail_numbers (
  last  bigint   NOT NULL,
  shard smallint PRIMARY KEY
) WITH (fillfactor = 20);
INSERT INTO mail_numbers (shard, last) SELECT n, 0 FROM generate_series(0, 63) n;

-- The one table for "only once". kind 1: a start, key = the idempotency key, body_sha256 = its body.
-- kind 2: a signal, key = the instance's 16 bytes and the signal id. Lives as long as the instance.
CREATE TABLE once (
  tenant_no   integer  NOT NULL,
  kind        smallint NOT NULL CHECK (kind IN (1, 2)),
  instance_id uuid     NOT NULL,
  key         bytea    NOT NULL,
  body_sha256 bytea,
  PRIMARY KEY (tenant_no, kind, key)
);
