-- Version 5: a server that lost commits which it had acknowledged is noticed, and the runs that it may concern are marked.

-- Which ledger this is: a copy of the database, or a dump of it, keeps the id.
CREATE TABLE ledger_identity (
    only_one  boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    ledger_id text NOT NULL DEFAULT gen_random_uuid()::text
);
INSERT INTO ledger_identity DEFAULT VALUES;

-- The server as the last writer saw it. `synchronous`: a standby had to confirm each commit before it was acknowledged.
CREATE TABLE server_seen (
    only_one    boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    system_id   text NOT NULL,
    timeline    bigint NOT NULL,
    synchronous boolean NOT NULL
);

-- Losses that were noticed: at most one for each start of a server. `told` when the stream `ledger` says so, too.
CREATE TABLE losses (
    id         text PRIMARY KEY,
    evidence   text NOT NULL,
    stream     text,
    seq        bigint,
    found_seq  bigint,
    detail     text NOT NULL,
    runs       bigint NOT NULL DEFAULT 0,
    noticed_at timestamptz NOT NULL,
    told       boolean NOT NULL DEFAULT false
);
CREATE INDEX losses_untold ON losses (id) WHERE NOT told;

-- Runs of which events may have been lost. A driver records that in the run, then removes the row.
CREATE TABLE suspect_runs (
    run_id    text COLLATE "C" PRIMARY KEY,
    loss_id   text NOT NULL,
    marked_at timestamptz NOT NULL
);

-- Events were lost: mark every run that is not over, and make each lease that was granted before void. Epochs leap, so that a
-- claim that was lost, too, is never granted again under the same epoch; and so do the numbers of events, so that readers who had
-- seen lost ones go on above them. Nothing happens when this start of the server was noticed before.
CREATE FUNCTION note_loss(kind text, lost_stream text, lost_seq bigint, last_seq bigint, words text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    this_start text := extract(epoch FROM pg_postmaster_start_time())::text;
    marked     bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1380270927, 1);
    INSERT INTO losses (id, evidence, stream, seq, found_seq, detail, noticed_at)
    VALUES (this_start, kind, lost_stream, lost_seq, last_seq, words, db_now()) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO suspect_runs (run_id, loss_id, marked_at)
    SELECT run_id, this_start, db_now() FROM runs
    WHERE ended_at_us IS NULL AND NOT (status = 'queued' AND due_us > extract(epoch FROM db_now()) * 1000000)
    ON CONFLICT (run_id) DO UPDATE SET loss_id = excluded.loss_id, marked_at = excluded.marked_at;
    GET DIAGNOSTICS marked = ROW_COUNT;
    UPDATE losses SET runs = marked WHERE id = this_start;
    UPDATE leases SET epoch = epoch + 100;
    INSERT INTO leases (run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s, expires_at)
    SELECT run_id, 100, NULL, 0, 0, '', 0, db_now() FROM suspect_runs ON CONFLICT (run_id) DO NOTHING;
    UPDATE numbering SET base = base + (1::bigint << 40);
    RETURN true;
END $$;

-- To be called whenever a writer connects. Another timeline of the same cluster: a standby has taken over, or a backup was
-- restored up to a point in time. Unless each commit was confirmed by a standby, that may have lost some.
CREATE FUNCTION note_server(this_system text, this_timeline bigint, is_synchronous boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    before server_seen%ROWTYPE;
    loss   boolean := false;
BEGIN
    SELECT * INTO before FROM server_seen;
    IF (before.system_id, before.timeline, before.synchronous) = (this_system, this_timeline, is_synchronous) THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(1380270927, 1);
    SELECT * INTO before FROM server_seen FOR UPDATE;
    IF before.system_id = this_system AND before.timeline <> this_timeline AND NOT before.synchronous THEN
        loss := note_loss('failover', NULL, NULL, NULL,
            format('the server went over from timeline %s to timeline %s', before.timeline, this_timeline));
    END IF;
    INSERT INTO server_seen (system_id, timeline, synchronous) VALUES (this_system, this_timeline, is_synchronous)
    ON CONFLICT (only_one) DO UPDATE SET system_id = excluded.system_id, timeline = excluded.timeline,
        synchronous = excluded.synchronous;
    RETURN loss;
END $$;
