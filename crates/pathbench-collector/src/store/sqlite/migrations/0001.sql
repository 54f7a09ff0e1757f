-- Results without their summaries: what every start of a collector reads is close together.
CREATE TABLE results (
    sequence INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    digest BLOB NOT NULL,
    agent BLOB NOT NULL,
    -- 0 none, 1 private, 2 public
    consent INTEGER NOT NULL,
    deletion BLOB NOT NULL,
    received_ms INTEGER NOT NULL,
    raw_segment TEXT,
    raw_offset INTEGER,
    raw_bytes INTEGER,
    raw_digest BLOB,
    facts BLOB NOT NULL
) STRICT;
CREATE INDEX results_deletion ON results (deletion);
CREATE INDEX results_received ON results (received_ms);
CREATE INDEX results_segment ON results (raw_segment, raw_offset) WHERE raw_segment IS NOT NULL;

CREATE TABLE summaries (
    sequence INTEGER PRIMARY KEY,
    summary BLOB NOT NULL
) STRICT;

-- Tombstones: a repetition does not bring a deleted result back.
CREATE TABLE deletions (
    sequence INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    deleted_ms INTEGER NOT NULL
) STRICT;

-- Raw parts of deleted results that the raw store still has.
CREATE TABLE erasures (
    number INTEGER PRIMARY KEY,
    raw_segment TEXT NOT NULL,
    raw_offset INTEGER NOT NULL,
    raw_bytes INTEGER NOT NULL,
    raw_digest BLOB NOT NULL
) STRICT;

-- The last sequence number of results and deletions. A number is never used again.
CREATE TABLE changes (last INTEGER NOT NULL) STRICT;
INSERT INTO changes VALUES (0);

CREATE TABLE documents (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
