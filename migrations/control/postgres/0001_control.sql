-- The control plane's own database: who may. Small, and never on the path of a step.
-- Times are milliseconds since 1970, UTC. Digests are 32 bytes. Names only: no address and no credential of a store.
-- Names are compared byte for byte, as everywhere else: pages go on where they stopped.

CREATE TABLE meta (
    key   TEXT COLLATE "C" PRIMARY KEY,
    value TEXT             NOT NULL
);

CREATE TABLE tenants (
    tenant_id    TEXT COLLATE "C" PRIMARY KEY,
    display_name TEXT             NOT NULL,
    created_at   BIGINT           NOT NULL
);

-- The secret is shown once and never stored. Revoked keys stay, so that they can be listed.
CREATE TABLE api_keys (
    key_sha256   BYTEA            PRIMARY KEY CHECK (length(key_sha256) = 32),
    key_id       TEXT COLLATE "C" NOT NULL UNIQUE,
    tenant_id    TEXT COLLATE "C",
    roles        TEXT             NOT NULL,
    display_name TEXT             NOT NULL,
    created_at   BIGINT           NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    request_id   TEXT
);

CREATE UNIQUE INDEX api_keys_request ON api_keys (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, key_id);

CREATE TABLE placements (
    tenant_id  TEXT COLLATE "C" PRIMARY KEY,
    store      TEXT COLLATE "C" NOT NULL,
    epoch      BIGINT           NOT NULL CHECK (epoch > 0),
    updated_at BIGINT           NOT NULL
);

-- What changed, in order: the resume token of the watch. Written in the transaction of the change itself. One row for
-- each thing that ever changed, its last change: the table grows with the things, not with their history.
CREATE TABLE changes (
    seq  BIGINT           PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('placement', 'key')),
    key  TEXT COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX changes_thing ON changes (kind, key);
