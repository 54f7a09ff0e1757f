-- Of results and deletions. Taken under an advisory lock that the transaction holds until its commit, so the order of
-- numbers is the order of commits.
CREATE SEQUENCE changes AS bigint;

-- Partitions by month of the UUIDv7 (RFC 9562), that is by range of the id; the writer makes them.
CREATE TABLE results (
    sequence bigint NOT NULL,
    id uuid PRIMARY KEY,
    digest bytea NOT NULL,
    agent uuid NOT NULL,
    -- 0 none, 1 private, 2 public
    consent smallint NOT NULL,
    deletion bytea NOT NULL,
    received_ms bigint NOT NULL,
    raw_segment text COLLATE "C",
    raw_offset bigint,
    raw_bytes bigint,
    raw_digest bytea,
    facts bytea NOT NULL,
    summary bytea NOT NULL
) PARTITION BY RANGE (id);
CREATE INDEX results_sequence ON results (sequence);
CREATE INDEX results_deletion ON results (deletion);
CREATE INDEX results_received ON results (received_ms);
CREATE INDEX results_segment ON results (raw_segment, raw_offset) WHERE raw_segment IS NOT NULL;
-- Results that were made in another month than they are received in.
CREATE TABLE results_default PARTITION OF results DEFAULT;

-- Tombstones: a repetition does not bring a deleted result back.
CREATE TABLE deletions (
    sequence bigint NOT NULL UNIQUE,
    id uuid PRIMARY KEY,
    deleted_ms bigint NOT NULL
);

-- Raw parts of deleted results that the raw store still has.
CREATE TABLE erasures (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    raw_segment text COLLATE "C" NOT NULL,
    raw_offset bigint NOT NULL,
    raw_bytes bigint NOT NULL,
    raw_digest bytea NOT NULL
);

CREATE TABLE documents (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    body text NOT NULL,
    updated_ms bigint NOT NULL,
    PRIMARY KEY (kind, key)
);
