-- The ledger on PostgreSQL, version 1. Everything is in the schema `recoup`, which the connection's search_path names.
-- Truth: streams, events, policies. Cached folds of the events: runs, attempts, checkpoints, workflow_state, families,
-- claims. Coordination: leases, controls, escalations.
--
-- One order of locks for all writers: the turn (shared), then the rows of streams by name, then families and then crowds
-- by their hashes.
-- Whatever belongs to a run (its lease, its inbox, its rows) is written under the lock of its stream alone.
--
-- A function keeps its meaning for ever: older workers call it. What must change gets a new name.

-- A user who may not make schemas can be given one.
DO $$ BEGIN
    IF to_regnamespace('recoup') IS NULL THEN
        CREATE SCHEMA recoup;
    END IF;
END $$;

CREATE TABLE ledger_version (
    version       integer NOT NULL,
    oldest_reader integer NOT NULL
);

-- A claim, or a control, may come before the first event: such a stream has no events yet (last_seq 0).
CREATE TABLE streams (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name     text COLLATE "C" NOT NULL UNIQUE,
    last_seq bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

-- `number` is base + transaction id * 2^20 + the place within the transaction. Numbers of a sequence would be drawn in
-- another order than the one in which transactions end; ids of transactions below the oldest one that is under way are done.
CREATE TABLE events (
    number    bigint PRIMARY KEY,
    stream_id bigint NOT NULL,
    seq       bigint NOT NULL,
    wall_us   bigint NOT NULL,
    boot_us   bigint NOT NULL,
    boot_id   text NOT NULL,
    type      text NOT NULL,
    payload   text NOT NULL,
    UNIQUE (stream_id, seq)
);

-- The same for people with an SQL prompt.
CREATE VIEW event_lines AS
SELECT streams.name AS stream, events.seq, to_timestamp(events.wall_us / 1e6) AS at, events.type, events.payload::json
FROM events JOIN streams ON streams.id = events.stream_id;

-- One row. Transaction ids begin anew where a dump is restored: then `base` is raised.
CREATE TABLE numbering (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    base bigint NOT NULL
);
INSERT INTO numbering (base) VALUES (0);

CREATE TABLE policies (
    digest text COLLATE "C" PRIMARY KEY,
    body   bytea NOT NULL
);

CREATE TABLE runs (
    run_id          text COLLATE "C" PRIMARY KEY,
    workflow        text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    delivery        bigint NOT NULL,
    submitted_at_us bigint NOT NULL,
    reason          text NOT NULL,
    attempts_seq    bigint NOT NULL DEFAULT 0,
    queue           text COLLATE "C",
    priority        bigint NOT NULL DEFAULT 0,
    needs           text NOT NULL DEFAULT '',
    due_us          bigint NOT NULL DEFAULT 0,
    wants_driver    bigint NOT NULL DEFAULT 1
);
CREATE INDEX runs_wanting ON runs (run_id) WHERE wants_driver = 1 AND queue IS NOT NULL;
CREATE INDEX runs_by_time ON runs (submitted_at_us, run_id);
CREATE INDEX runs_by_workflow ON runs (workflow, submitted_at_us, run_id);
CREATE INDEX runs_by_status ON runs (status, submitted_at_us, run_id);
CREATE INDEX runs_by_both ON runs (workflow, status, submitted_at_us, run_id);

CREATE TABLE attempts (
    run_id            text COLLATE "C" NOT NULL,
    step_index        bigint NOT NULL,
    step_id           text NOT NULL,
    attempt           bigint NOT NULL,
    delivery          bigint NOT NULL,
    state             text NOT NULL,
    verdict           text,
    failure_kind      text,
    failure_class     text,
    failure_signature text,
    diff_hash         text,
    strategy          text,
    started_at_us     bigint NOT NULL,
    ended_at_us       bigint,
    PRIMARY KEY (run_id, step_index, attempt)
);

CREATE TABLE checkpoints (
    run_id       text COLLATE "C" NOT NULL,
    step_index   bigint NOT NULL,
    step_id      text NOT NULL,
    attempt      bigint NOT NULL,
    tree         text NOT NULL,
    manifest     text NOT NULL,
    stored_at_us bigint NOT NULL,
    valid        bigint NOT NULL,
    PRIMARY KEY (run_id, step_index)
);

-- The state of a workflow as it was at `seq` of its stream, never many events behind the head.
CREATE TABLE workflow_state (
    workflow text COLLATE "C" PRIMARY KEY,
    seq      bigint NOT NULL,
    body     text NOT NULL
);

-- `family` is the run that all of them go back to through reuse. A run that reuses none has no row: it is its own.
CREATE TABLE families (
    run_id text COLLATE "C" PRIMARY KEY,
    family text COLLATE "C" NOT NULL
);
CREATE INDEX families_by_root ON families (family, run_id);

-- A step with these arguments is `run_id`'s to do. Never behind the events: two runs may want it at the same time.
CREATE TABLE claims (
    family      text COLLATE "C" NOT NULL,
    step_id     text COLLATE "C" NOT NULL,
    args_digest text COLLATE "C" NOT NULL,
    run_id      text COLLATE "C" NOT NULL,
    start       text NOT NULL,
    PRIMARY KEY (family, step_id, args_digest)
);
CREATE INDEX claims_by_run ON claims (run_id, step_id);

-- A row stays when its lease is released (owner NULL): epochs only grow. `expires_at` is by the database's clock and
-- decides; when the owner renewed it by his own is for people.
CREATE TABLE leases (
    run_id     text COLLATE "C" PRIMARY KEY,
    epoch      bigint NOT NULL,
    owner      text,
    wall_us    bigint NOT NULL,
    boot_us    bigint NOT NULL,
    boot_id    text NOT NULL,
    ttl_s      double precision NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX leases_held ON leases (run_id) WHERE owner IS NOT NULL;

-- Who was there last, and when that was by the database's clock.
CREATE TABLE workers (
    worker_id text COLLATE "C" PRIMARY KEY,
    body      text NOT NULL,
    seen_at   timestamptz NOT NULL
);

-- The inbox: controls in the order in which they arrived; `outcome` NULL means that one still waits.
CREATE TABLE controls (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       text COLLATE "C" NOT NULL UNIQUE,
    run_id   text COLLATE "C" NOT NULL,
    action   text NOT NULL,
    reason   text NOT NULL,
    actor    text NOT NULL,
    wall_us  bigint NOT NULL,
    boot_us  bigint NOT NULL,
    boot_id  text NOT NULL,
    step_id  text,
    argument text,
    outcome  text,
    epoch    bigint
);
CREATE INDEX controls_by_run ON controls (run_id);
CREATE INDEX controls_waiting ON controls (run_id, number) WHERE outcome IS NULL;

-- The outbox: what waits for a person; `delivered_at_us` NULL means that nobody was told yet.
CREATE TABLE escalations (
    number          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              text COLLATE "C" NOT NULL UNIQUE,
    stream          text COLLATE "C" NOT NULL,
    reason          text NOT NULL,
    body            bytea NOT NULL,
    delivered_at_us bigint
);
CREATE INDEX escalations_by_stream ON escalations (stream);
CREATE INDEX escalations_undelivered ON escalations (number) WHERE delivered_at_us IS NULL;

-- The clock of leases: one function, so that a test can let time pass.
CREATE FUNCTION db_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

-- Taken by every writer before its transaction gets an id, shared; alone by whoever raises the base of the numbers.
CREATE FUNCTION take_turn() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1380270927, 1);
END $$;

-- To be called whenever a writer connects: numbers go on above all that there are, also in a restored database.
CREATE FUNCTION settle_numbers() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    highest bigint;
    next    bigint;
BEGIN
    SELECT max(number) INTO highest FROM events;
    -- Asked afterwards: every number there is belongs to an id below the next one that will be given.
    SELECT base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20) INTO next FROM numbering;
    IF highest IS NULL OR highest < next THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(1380270927, 1);
    SELECT max(number) INTO highest FROM events;
    UPDATE numbering SET base = highest + 1 - (pg_current_xact_id()::text::bigint << 20)
    WHERE base + (pg_current_xact_id()::text::bigint << 20) <= highest;
END $$;

-- Write events, and where their streams end now, under locks that the caller holds.
-- `ids`, `ends`: of streams. `added`: [{n: which of them, from 1; q: seq; w: wall_us; b: boot_us; i: boot_id; k: type; p: payload}].
CREATE FUNCTION put_events(ids bigint[], ends bigint[], added json) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    INSERT INTO events (number, stream_id, seq, wall_us, boot_us, boot_id, type, payload)
    SELECT numbering.base + (pg_current_xact_id()::text::bigint << 20) + e.place, ids[e.n], e.q, e.w, e.b, e.i, e.k, e.p
    FROM ROWS FROM (
        json_to_recordset(added) AS (n int, q bigint, w bigint, b bigint, i text, k text, p text)
    ) WITH ORDINALITY AS e (n, q, w, b, i, k, p, place)
    CROSS JOIN numbering;
    UPDATE streams SET last_seq = put.last FROM unnest(ids, ends) AS put (id, last)
    WHERE streams.id = put.id AND streams.last_seq <> put.last;
END $$;

-- The same for streams by their names. `batch`: names, in order, their ends, events as above.
CREATE FUNCTION put_events(batch json) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    wanted text[]; after bigint[]; added json;
BEGIN
    SELECT names, ends, events INTO wanted, after, added
    FROM json_to_record(batch) AS b (names text[], ends bigint[], events json);
    PERFORM put_events(ARRAY(SELECT id FROM streams WHERE name = ANY (wanted) ORDER BY name), after, added);
END $$;

-- Write events, if all that they were decided by is still so; otherwise nothing.
-- `batch`: names of streams, in order, where they ended before (starts) and will end, events as for put_events; leased runs and
-- their epochs; quiet runs, for which no control may wait.
-- The streams of all these runs are among the names: under their locks leases and inboxes change.
CREATE FUNCTION append_if_unchanged(batch json) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    wanted text[]; expected bigint[]; after bigint[]; added json; runs text[]; held bigint[]; waiting text[];
    ids    bigint[];
    found  bigint[];
BEGIN
    PERFORM take_turn();
    SELECT names, starts, ends, events, leased, epochs, quiet
    INTO wanted, expected, after, added, runs, held, waiting
    FROM json_to_record(batch) AS b (
        names text[], starts bigint[], ends bigint[], events json, leased text[], epochs bigint[], quiet text[]
    );
    SELECT array_agg(locked.id), array_agg(locked.last_seq) INTO ids, found
    FROM (SELECT id, last_seq FROM streams WHERE name = ANY (wanted) ORDER BY name FOR NO KEY UPDATE) AS locked;
    IF found IS DISTINCT FROM expected OR EXISTS (
        SELECT FROM unnest(runs, held) AS lease (run_id, epoch)
        LEFT JOIN leases ON leases.run_id = lease.run_id AND leases.owner IS NOT NULL
        WHERE leases.epoch IS DISTINCT FROM lease.epoch
    ) OR EXISTS (
        SELECT FROM controls WHERE controls.run_id = ANY (waiting) AND controls.outcome IS NULL
    ) THEN
        RETURN false;
    END IF;
    PERFORM put_events(ids, after, added);
    RETURN true;
END $$;

-- The same as the beginning of a transaction that goes on with other writes.
CREATE FUNCTION append_or_fail(batch json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT append_if_unchanged(batch) THEN
        RAISE EXCEPTION 'what this was decided by has changed' USING ERRCODE = 'RC001', HINT = 'Begin again.';
    END IF;
END $$;

-- The beginning of any other transaction: take the locks, then tell what there is.
-- `asked`: streams [{n: name, k: up to where the caller knows it, or -1}]; leases [run]; inboxes [run]; sent [control];
-- families [run]; steps [step id that may be claimed]; crowds [{o: workflow or queue, n: name}]; kinds [type of event that is about attempts];
-- lag: how far a stored state may be ahead of what the caller knows before it is worth being told.
CREATE FUNCTION gather(asked json) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    names text[] := ARRAY(SELECT n FROM json_to_recordset(asked -> 'streams') AS s (n text));
    roots text[];
    locked bigint;
BEGIN
    PERFORM take_turn();
    INSERT INTO streams (name)
    SELECT wanted.n FROM unnest(names) AS wanted (n)
    WHERE NOT EXISTS (SELECT FROM streams WHERE streams.name = wanted.n)
    ORDER BY wanted.n COLLATE "C" ON CONFLICT (name) DO NOTHING;
    PERFORM FROM streams WHERE name = ANY (names) ORDER BY name FOR NO KEY UPDATE;
    GET DIAGNOSTICS locked = ROW_COUNT;
    IF locked < cardinality(names) THEN
        RAISE EXCEPTION 'a stream was forgotten meanwhile' USING ERRCODE = 'serialization_failure', HINT = 'Begin again.';
    END IF;
    IF json_array_length(asked -> 'families') > 0 THEN
        roots := ARRAY(
            SELECT DISTINCT coalesce(families.family, f.r) FROM json_array_elements_text(asked -> 'families') AS f (r)
            LEFT JOIN families ON families.run_id = f.r
        );
        PERFORM pg_advisory_xact_lock(1380270928, hash)
        FROM (SELECT DISTINCT hashtext(root) AS hash FROM unnest(roots) AS roots (root) ORDER BY 1) AS locks;
    END IF;
    IF json_array_length(asked -> 'crowds') > 0 THEN
        PERFORM pg_advisory_xact_lock(1380270929, hash)
        FROM (
            SELECT DISTINCT hashtext(c.o || ':' || c.n) AS hash
            FROM json_to_recordset(asked -> 'crowds') AS c (o text, n text) ORDER BY 1
        ) AS locks;
    END IF;
    RETURN (
        WITH known AS MATERIALIZED (
            SELECT s.n AS name, s.k AS seq, streams.id, streams.last_seq
            FROM json_to_recordset(asked -> 'streams') AS s (n text, k bigint) JOIN streams ON streams.name = s.n
        ), states AS MATERIALIZED (
            SELECT known.id, state.workflow, state.seq, state.body
            FROM known JOIN workflow_state AS state ON state.workflow = substr(known.name, 10)
            WHERE known.name LIKE 'workflow:%' AND known.last_seq <> known.seq
            AND (known.seq < 0 OR state.seq > known.seq + (asked ->> 'lag')::bigint)
        ), facts AS (
            SELECT known.name, events.*
            FROM known LEFT JOIN states ON states.id = known.id
            JOIN events ON events.stream_id = known.id AND events.seq > coalesce(states.seq, greatest(known.seq, 0))
            WHERE known.name LIKE 'workflow:%' AND known.last_seq <> known.seq
            UNION ALL
            SELECT known.name, events.*
            FROM known LEFT JOIN runs ON runs.run_id = substr(known.name, 5)
            JOIN events ON events.stream_id = known.id AND events.seq > coalesce(runs.attempts_seq, 0)
            WHERE known.name LIKE 'run:%' AND known.last_seq <> known.seq
            AND events.type IN (SELECT json_array_elements_text(asked -> 'kinds'))
        )
        SELECT json_build_object(
            'xid', pg_current_xact_id()::text::bigint,
            'ends', (SELECT json_agg(json_build_array(name, last_seq)) FROM known),
            'states', (SELECT json_agg(json_build_array(workflow, seq, body)) FROM states),
            'facts', (
                SELECT json_agg(json_build_array(name, wall_us, boot_us, boot_id, type, payload) ORDER BY name, seq)
                FROM facts
            ),
            'leases', (
                SELECT json_agg(json_build_array(run_id, epoch, owner, expires_at <= db_now())) FROM leases
                WHERE run_id IN (SELECT json_array_elements_text(asked -> 'leases'))
            ),
            'crowds', (
                SELECT json_agg(json_build_array(c.o, c.n, leases.run_id))
                FROM json_to_recordset(asked -> 'crowds') AS c (o text, n text)
                CROSS JOIN leases JOIN runs ON runs.run_id = leases.run_id
                WHERE leases.owner IS NOT NULL AND leases.expires_at > db_now()
                AND c.n = CASE c.o WHEN 'workflow' THEN runs.workflow ELSE runs.queue END
            ),
            'waiting', (
                SELECT json_agg(json_build_array(run_id, id)) FROM controls
                WHERE outcome IS NULL AND run_id IN (SELECT json_array_elements_text(asked -> 'inboxes'))
            ),
            'sent', (
                SELECT json_agg(id) FROM controls WHERE id IN (SELECT json_array_elements_text(asked -> 'sent'))
            ),
            'families', (
                SELECT json_agg(json_build_array(run_id, family)) FROM families
                WHERE run_id IN (SELECT json_array_elements_text(asked -> 'families'))
            ),
            'claims', (
                SELECT json_agg(json_build_array(family, step_id, args_digest, run_id, start)) FROM claims
                WHERE family = ANY (roots) AND step_id IN (SELECT json_array_elements_text(asked -> 'steps'))
            )
        )
    );
END $$;

-- The beginning of a transaction that forgets: the streams of runs, of their keys, and the one into which it is noted.
CREATE FUNCTION lock_to_forget(names text[], noted text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM take_turn();
    INSERT INTO streams (name) SELECT noted WHERE NOT EXISTS (SELECT FROM streams WHERE name = noted)
    ON CONFLICT (name) DO NOTHING;
    PERFORM FROM streams WHERE name = ANY (names || noted) ORDER BY name FOR UPDATE;
END $$;

-- All that belongs to runs and families, under these locks.
CREATE FUNCTION forget(forgotten text[], roots text[], keys text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names text[] := ARRAY(SELECT 'run:' || run FROM unnest(forgotten) AS runs (run));
BEGIN
    DELETE FROM events USING streams WHERE events.stream_id = streams.id AND streams.name = ANY (names || keys);
    DELETE FROM streams WHERE name = ANY (names || keys);
    DELETE FROM runs WHERE run_id = ANY (forgotten);
    DELETE FROM attempts WHERE run_id = ANY (forgotten);
    DELETE FROM checkpoints WHERE run_id = ANY (forgotten);
    DELETE FROM leases WHERE run_id = ANY (forgotten);
    DELETE FROM controls WHERE run_id = ANY (forgotten);
    DELETE FROM escalations WHERE stream = ANY (names);
    DELETE FROM families WHERE family = ANY (roots);
    DELETE FROM claims WHERE family = ANY (roots);
END $$;
