-- The ledger, version 1. Truth: streams, events, policies. Cached folds of the events: runs, attempts, checkpoints,
-- workflow_state. Coordination: leases, controls, escalations.

CREATE TABLE streams (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE
);

-- `place` is the stream's id times 2^32 plus the sequence. Rows lie in the order in which they came, so that an append
-- touches the last page alone; kept in the order of places, every commit would shift rows between full pages.
CREATE TABLE events (
    id      INTEGER PRIMARY KEY,
    place   INTEGER NOT NULL UNIQUE,
    wall_us INTEGER NOT NULL,
    boot_us INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    type    TEXT NOT NULL,
    payload TEXT NOT NULL
);

-- The same for people with an SQL prompt.
CREATE VIEW event_lines AS
SELECT streams.name AS stream, events.place & 4294967295 AS seq, events.wall_us, events.type, events.payload
FROM events JOIN streams ON streams.id = events.place >> 32;

CREATE TABLE policies (
    digest TEXT PRIMARY KEY,
    body   BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE runs (
    run_id          TEXT PRIMARY KEY,
    workflow        TEXT NOT NULL,
    status          TEXT NOT NULL,
    delivery        INTEGER NOT NULL,
    submitted_at_us INTEGER NOT NULL,
    reason          TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_time ON runs (submitted_at_us);
CREATE INDEX runs_by_workflow ON runs (workflow, submitted_at_us);
CREATE INDEX runs_by_status ON runs (status, submitted_at_us);

-- With the sequence and the time of the last event, which the stream itself knows.
CREATE VIEW run_rows AS
SELECT run_id, workflow, status, delivery, submitted_at_us, last.wall_us AS updated_at_us, reason,
    last.place & 4294967295 AS seq
FROM runs
JOIN streams ON streams.name = 'run:' || runs.run_id
JOIN events AS last ON last.place = (
    SELECT place FROM events WHERE place < (streams.id + 1) << 32 ORDER BY place DESC LIMIT 1
);

CREATE TABLE attempts (
    run_id            TEXT NOT NULL,
    step_index        INTEGER NOT NULL,
    step_id           TEXT NOT NULL,
    attempt           INTEGER NOT NULL,
    delivery          INTEGER NOT NULL,
    state             TEXT NOT NULL,
    verdict           TEXT,
    failure_kind      TEXT,
    failure_class     TEXT,
    failure_signature TEXT,
    diff_hash         TEXT,
    strategy          TEXT,
    started_at_us     INTEGER NOT NULL,
    ended_at_us       INTEGER,
    PRIMARY KEY (run_id, step_index, attempt)
) WITHOUT ROWID;

CREATE TABLE checkpoints (
    run_id       TEXT NOT NULL,
    step_index   INTEGER NOT NULL,
    step_id      TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    tree         TEXT NOT NULL,
    manifest     TEXT NOT NULL,
    stored_at_us INTEGER NOT NULL,
    valid        INTEGER NOT NULL,
    PRIMARY KEY (run_id, step_index)
) WITHOUT ROWID;

-- The state of a workflow as it was at `seq` of its stream, never many events behind the head. A migration that
-- changes how states are folded deletes these rows: they are folded anew when they are asked for.
CREATE TABLE workflow_state (
    workflow TEXT PRIMARY KEY,
    seq      INTEGER NOT NULL,
    body     TEXT NOT NULL
) WITHOUT ROWID;

-- A row stays when its lease is released (owner NULL): epochs only grow.
CREATE TABLE leases (
    run_id  TEXT PRIMARY KEY,
    epoch   INTEGER NOT NULL,
    owner   TEXT,
    wall_us INTEGER NOT NULL,
    boot_us INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    ttl_s   REAL NOT NULL
) WITHOUT ROWID;

-- The inbox: controls in the order in which they arrived; `outcome` NULL means that one still waits.
CREATE TABLE controls (
    number   INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    run_id   TEXT NOT NULL,
    action   TEXT NOT NULL,
    reason   TEXT NOT NULL,
    actor    TEXT NOT NULL,
    wall_us  INTEGER NOT NULL,
    boot_us  INTEGER NOT NULL,
    boot_id  TEXT NOT NULL,
    step_id  TEXT,
    argument TEXT,
    outcome  TEXT,
    epoch    INTEGER
);
CREATE INDEX controls_waiting ON controls (run_id) WHERE outcome IS NULL;

-- The outbox: what waits for a person; `delivered_at_us` NULL means that nobody was told yet.
CREATE TABLE escalations (
    number          INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    stream          TEXT NOT NULL,
    reason          TEXT NOT NULL,
    body            BLOB NOT NULL,
    delivered_at_us INTEGER
);
CREATE INDEX escalations_undelivered ON escalations (number) WHERE delivered_at_us IS NULL;
