-- The control plane's own database: who may. Small, and never on the path of a step.
-- Times are milliseconds since 1970, UTC. Digests are 32 bytes. Names only: no address and no credential of a store.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenants (
    tenant_id    TEXT    PRIMARY KEY,
    display_name TEXT    NOT NULL,
    created_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The secret is shown once and never stored. Revoked keys stay, so that they can be listed.
CREATE TABLE api_keys (
    key_sha256   BLOB    PRIMARY KEY CHECK (length(key_sha256) = 32),
    key_id       TEXT    NOT NULL UNIQUE,
    tenant_id    TEXT,
    roles        TEXT    NOT NULL,
    display_name TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    request_id   TEXT
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX api_keys_request ON api_keys (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, key_id);

CREATE TABLE placements (
    tenant_id  TEXT    PRIMARY KEY,
    store      TEXT    NOT NULL,
    epoch      INTEGER NOT NULL CHECK (epoch > 0),
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What changed, in order: the resume token of the watch. Written in the transaction of the change itself. One row for
-- each thing that ever changed, its last change: the table grows with the things, not with their history.
CREATE TABLE changes (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('placement', 'key')),
    key  TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX changes_thing ON changes (kind, key);
