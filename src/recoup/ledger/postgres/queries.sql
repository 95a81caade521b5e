-- One query each: a line `-- name: what it does`, then the statement. Loaded by queries.py.
-- Plans are made once, for whatever is asked (connecting.py). What a row leads to is looked up in a LATERAL ... OFFSET 0, or
-- in a subquery that gives a value: neither can become a join in which a whole table is read. Of an equality the plan would think that most rows are
-- meant, and look for them in the order of time: hence a range, and an order that only one index has.
-- The writes of cached rows are not here: they are made from the shapes in kernel/projection.py (rows.py).

-- take_numbers: see that the numbers of events go on above all that there are
SELECT settle_numbers();

-- ledger_id: which ledger this is, whichever server has it
SELECT ledger_id FROM ledger_identity WHERE only_one;

-- wall_clock: the time here, which all machines of a fleet count by
SELECT (extract(epoch FROM db_now()) * 1000000)::bigint;

-- this_server: the cluster, its timeline, and whether a standby confirms each commit
SELECT (SELECT system_identifier::text FROM pg_control_system()),
    ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint,
    current_setting('synchronous_standby_names') <> ''
        AND current_setting('synchronous_commit') IN ('on', 'remote_apply');

-- note_server: remember which server it is; true when that shows that commits may have been lost
SELECT note_server(%s::text, %s::bigint, %s::boolean);

-- note_loss: commits that were acknowledged are gone; true unless that was noticed before
SELECT note_loss('acknowledged', %s::text, %s::bigint, %s::bigint, %s::text);

-- note_start: see that this start of the server is in the history of the database, name it, and say how long ago it was
SELECT note_start(), extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8;

-- stamp_at: when the fact at a place was recorded, where its stream ends, and the number of the first fact there; no row for an unknown stream
SELECT events.wall_us, events.boot_us, events.boot_id, streams.last_seq, first.number
FROM streams LEFT JOIN events ON events.stream_id = streams.id AND events.seq = %s
LEFT JOIN events AS first ON first.stream_id = streams.id AND first.seq = 1 WHERE streams.name = %s;

-- number_at: of the fact at a place
SELECT events.number FROM events JOIN streams ON streams.id = events.stream_id WHERE streams.name = %s AND events.seq = %s;

-- was_reached: whether a number that was given under a start of the server belongs to the history of this database
SELECT EXISTS (
    SELECT FROM server_starts AS own WHERE own.start = %s
    AND NOT EXISTS (SELECT FROM server_starts WHERE id > own.id AND first_number <= %s)
);

-- pruned_above: whether anything was forgotten by a transaction with a higher number
SELECT EXISTS (
    SELECT FROM events WHERE events.stream_id = (SELECT id FROM streams WHERE name = 'ledger')
    AND events.type = 'ledger.pruned' AND events.number > %s
);

-- pruned_since: whether anything was forgotten after a moment
SELECT EXISTS (
    SELECT FROM events WHERE events.stream_id = (SELECT id FROM streams WHERE name = 'ledger')
    AND events.type = 'ledger.pruned' AND events.wall_us >= %s
);

-- untold_losses: those that the stream `ledger` does not have yet
SELECT id, evidence, stream, seq, found_seq, detail, runs, to_char(noticed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
FROM losses WHERE NOT told ORDER BY id;

-- tell_loss: the stream `ledger` has it
UPDATE losses SET told = true WHERE id = %s;

-- suspicion: the loss that may concern a run, and how long ago it was noticed
SELECT losses.id, losses.evidence, losses.stream, losses.seq, losses.found_seq, losses.detail, losses.runs,
    to_char(losses.noticed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    greatest(0, extract(epoch FROM db_now() - suspect_runs.marked_at))::float8
FROM suspect_runs JOIN losses ON losses.id = suspect_runs.loss_id WHERE suspect_runs.run_id = %s;

-- end_suspicion: the run itself says so now
DELETE FROM suspect_runs WHERE run_id = %s AND loss_id = %s;

-- append: events, if what they were decided by is still so; gives the number of the last one
SELECT append_numbered(
    %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::text[], %s::json
);

-- gather: lock, and tell what there is
SELECT gather(%s::json)::text;

-- put_events: events, and where their streams end now; gives the number of the last one
SELECT put_numbered(%s::json);

-- notify: tell who listens that something was written
SELECT pg_notify('recoup', '');

-- outcome: what became of a transaction
SELECT pg_xact_status(%s::text::xid8);

-- this_backend: who serves this connection, so that it can be found again from another one
SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid();

-- end_backend: end a session of ours whose answer was lost; no row when it is gone
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s;

-- event_at: the fact at a place, to be compared with what should be there
SELECT events.wall_us, events.boot_us, events.boot_id, events.type, convert_to(events.payload, 'UTF8')
FROM streams JOIN events ON events.stream_id = streams.id WHERE streams.name = %s AND events.seq = %s;

-- events_after: facts of one stream in order
SELECT events.seq, events.wall_us, events.boot_us, events.boot_id, events.type, convert_to(events.payload, 'UTF8')
FROM events WHERE events.stream_id = (SELECT id FROM streams WHERE name = %s) AND events.seq > %s
ORDER BY events.seq LIMIT %s;

-- events_of: the first facts of streams in order
SELECT asked.name, first.* FROM unnest(%s::text[]) AS asked (name) CROSS JOIN LATERAL (
    SELECT events.seq, events.wall_us, events.boot_us, events.boot_id, events.type, convert_to(events.payload, 'UTF8')
    FROM events WHERE events.stream_id = (SELECT id FROM streams WHERE streams.name = asked.name)
    ORDER BY events.seq LIMIT 200
) AS first ORDER BY asked.name, first.seq;

-- events_arrived: facts of all streams in the order of their numbers, up to the oldest transaction under way
SELECT events.number, streams.name, events.seq, events.wall_us, events.boot_us, events.boot_id, events.type,
    convert_to(events.payload, 'UTF8')
FROM events CROSS JOIN LATERAL (SELECT name FROM streams WHERE streams.id = events.stream_id OFFSET 0) AS streams
WHERE events.number > %s AND events.number < (
    SELECT base + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20) FROM numbering
)
ORDER BY events.number LIMIT %s;

-- events_arrived_before: facts of all streams, the newest first
SELECT events.number, streams.name, events.seq, events.wall_us, events.boot_us, events.boot_id, events.type,
    convert_to(events.payload, 'UTF8')
FROM events CROSS JOIN LATERAL (SELECT name FROM streams WHERE streams.id = events.stream_id OFFSET 0) AS streams
WHERE events.number < %s ORDER BY events.number DESC LIMIT %s;

-- last_arrival: the number of the fact that events_arrived would give last
SELECT number FROM events WHERE number < (
    SELECT base + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20) FROM numbering
)
ORDER BY number DESC LIMIT 1;

-- head: where a stream ends
SELECT last_seq FROM streams WHERE name = %s;

-- streams_from: names that begin with a prefix
SELECT name FROM streams WHERE name >= %(prefix)s AND name < %(prefix)s || chr(1114111) AND last_seq > 0 ORDER BY name;

-- heads_from: the last event of each stream whose name begins with a prefix
SELECT streams.name, last.seq, last.wall_us, last.boot_us, last.boot_id
FROM streams CROSS JOIN LATERAL (
    SELECT * FROM events WHERE events.stream_id = streams.id AND events.seq = streams.last_seq OFFSET 0
) AS last
WHERE streams.name >= %(prefix)s AND streams.name < %(prefix)s || chr(1114111) ORDER BY streams.name;

-- add_policy: a policy body, once per digest
INSERT INTO policies (digest, body) VALUES (%s, %s) ON CONFLICT (digest) DO NOTHING;

-- policy_body: the policy with this digest
SELECT body FROM policies WHERE digest = %s;

-- add_escalation: one row of the people's inbox, once per id
INSERT INTO escalations (id, stream, reason, body, raised_at_us) VALUES (%s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING;

-- inbox: escalations oldest first, behind a number; of runs, of probes, or of both (NULL)
SELECT number, id, stream, reason, body, state, assignee, raised_at_us FROM escalations
WHERE number > %(behind)s
AND (%(of_runs)s::boolean IS NULL OR (stream >= 'run:' AND stream < 'run;') = %(of_runs)s::boolean)
ORDER BY number LIMIT %(limit)s;

-- inbox_in_state: the same of those in one state
SELECT number, id, stream, reason, body, state, assignee, raised_at_us FROM escalations
WHERE state >= %(state)s AND state <= %(state)s AND number > %(behind)s
AND (%(of_runs)s::boolean IS NULL OR (stream >= 'run:' AND stream < 'run;') = %(of_runs)s::boolean)
ORDER BY state, number LIMIT %(limit)s;

-- escalation: one of them
SELECT number, id, stream, reason, body, state, assignee, raised_at_us FROM escalations WHERE id = %s;

-- escalation_streams: of what people did about those of these streams
SELECT streams.name FROM escalations JOIN streams ON streams.name = 'escalation:' || escalations.id
WHERE escalations.stream = ANY (%s::text[]);

-- add_control: one row of the inbox, once per id
INSERT INTO controls (id, run_id, action, reason, actor, wall_us, boot_us, boot_id, step_id, argument, outcome, epoch)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING RETURNING 1;

-- acknowledge_control: the first acknowledgement counts
UPDATE controls SET outcome = %s, epoch = %s WHERE id = %s AND outcome IS NULL;

-- waiting_controls: the inboxes of runs, oldest first
SELECT run_id, id, run_id, action, reason, actor, wall_us, boot_us, boot_id, step_id, argument, outcome, epoch
FROM controls WHERE run_id = ANY (%s::text[]) AND outcome IS NULL ORDER BY number;

-- control: one control, dealt with or not
SELECT id, run_id, action, reason, actor, wall_us, boot_us, boot_id, step_id, argument, outcome, epoch
FROM controls WHERE id = %s;

-- lease: who drives a run, or did last
SELECT run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s FROM leases WHERE run_id = %s;

-- wanting: runs of queues that want a driver and have none, in the order of their ids
SELECT run_id, workflow, queue, priority, needs, due_us, submitted_at_us FROM runs
WHERE wants_driver = 1 AND queue IS NOT NULL AND run_id > %s
AND (SELECT owner FROM leases WHERE leases.run_id = runs.run_id) IS NULL
ORDER BY run_id LIMIT %s;

-- held: how long leases of runs of queues that want a driver still last, these runs, and the leases
SELECT greatest(0, extract(epoch FROM leases.expires_at - db_now()))::float8,
    wanted.*, leases.run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s
FROM leases CROSS JOIN LATERAL (
    SELECT run_id, workflow, queue, priority, needs, due_us, submitted_at_us FROM runs
    WHERE runs.run_id = leases.run_id AND queue IS NOT NULL AND wants_driver = 1 OFFSET 0
) AS wanted
WHERE leases.owner IS NOT NULL ORDER BY leases.run_id LIMIT %s;

-- keep_worker: as it described itself last
INSERT INTO workers (worker_id, body, seen_at) VALUES (%s, %s, db_now())
ON CONFLICT (worker_id) DO UPDATE SET body = excluded.body, seen_at = excluded.seen_at;

-- forget_worker: it has gone
DELETE FROM workers WHERE worker_id = %s;

-- forget_silent_workers: they have gone without a word
DELETE FROM workers WHERE seen_at <= db_now() - make_interval(secs => %s);

-- workers: in the order of their ids, and for how long they have been silent
SELECT worker_id, body, greatest(0, extract(epoch FROM db_now() - seen_at))::float8 FROM workers ORDER BY worker_id;

-- grant_leases: new holders under new epochs
INSERT INTO leases (run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s, expires_at)
SELECT run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s, db_now() + make_interval(secs => ttl_s)
FROM json_populate_recordset(NULL::leases, %s::json)
ON CONFLICT (run_id) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, wall_us = excluded.wall_us,
    boot_us = excluded.boot_us, boot_id = excluded.boot_id, ttl_s = excluded.ttl_s, expires_at = excluded.expires_at;

-- renew_leases: only by the epochs that hold them
UPDATE leases SET wall_us = given.wall_us, boot_us = given.boot_us, boot_id = given.boot_id, ttl_s = given.ttl_s,
    expires_at = db_now() + make_interval(secs => given.ttl_s)
FROM json_populate_recordset(NULL::leases, %s::json) AS given
WHERE leases.run_id = given.run_id AND leases.epoch = given.epoch AND leases.owner IS NOT NULL;

-- release_leases: only by the epochs that hold them; the epochs stay
UPDATE leases SET owner = NULL FROM json_populate_recordset(NULL::leases, %s::json) AS given
WHERE leases.run_id = given.run_id AND leases.epoch = given.epoch;

-- rows_of_runs: around a question for ids and times (run_lists.py): with the sequence and the time of the last event, which the stream itself knows; without them, where they are missing
SELECT r.run_id, r.workflow, r.status, r.delivery, r.submitted_at_us, last.wall_us, r.reason, last.seq,
    r.failure_class, r.worker, r.step_count, r.ended_at_us
FROM ({}) AS page
CROSS JOIN LATERAL (SELECT * FROM runs WHERE runs.run_id = page.run_id OFFSET 0) AS r
LEFT JOIN LATERAL (
    SELECT events.wall_us, events.seq FROM streams
    JOIN events ON events.stream_id = streams.id AND events.seq = streams.last_seq
    WHERE streams.name = 'run:' || r.run_id OFFSET 0
) AS last ON true
ORDER BY r.submitted_at_us DESC, r.run_id DESC;

-- tallies: how many runs there are with each status
SELECT status, count(*) FROM runs GROUP BY status;

-- ends_counted: the newest end within a time that is one too many, whatever its status; no row when there are no more than may be counted
SELECT ended_at_us FROM runs WHERE ended_at_us >= %(since)s AND ended_at_us < %(until)s
ORDER BY ended_at_us DESC LIMIT 1 OFFSET %(most)s;

-- recoveries_counted: the same of attempts that followed others
SELECT ended_at_us FROM attempts
WHERE attempt > 1 AND state = 'finished' AND ended_at_us >= %(since)s AND ended_at_us < %(until)s
ORDER BY ended_at_us DESC LIMIT 1 OFFSET %(most)s;

-- heals_counted: the same of heals
SELECT healed_at_us FROM heals WHERE healed_at_us >= %(since)s AND healed_at_us < %(until)s
ORDER BY healed_at_us DESC LIMIT 1 OFFSET %(most)s;

-- ends: how many runs ended in each part of a time, by status
SELECT (ended_at_us - %(since)s::bigint) / %(bucket)s::bigint, status, count(*) FROM runs
WHERE ended_at_us >= %(from)s AND ended_at_us < %(until)s
AND (%(workflow)s::text IS NULL OR workflow = %(workflow)s::text) GROUP BY 1, 2;

-- heals: how many targets were healed in each part of a time
SELECT (healed_at_us - %(since)s::bigint) / %(bucket)s::bigint, count(*) FROM heals
WHERE healed_at_us >= %(from)s AND healed_at_us < %(until)s AND (
    %(workflow)s::text IS NULL
    OR (SELECT workflow FROM runs WHERE runs.run_id = heals.run_id) = %(workflow)s::text
) GROUP BY 1;

-- recoveries: when steps passed that had failed since they passed last, and for how long they had
SELECT * FROM (
    SELECT passed.ended_at_us, passed.ended_at_us - (
        SELECT min(failed.ended_at_us) FROM attempts AS failed
        WHERE failed.run_id = passed.run_id AND failed.step_index = passed.step_index
        AND failed.attempt < passed.attempt AND failed.attempt > coalesce((
            SELECT max(earlier.attempt) FROM attempts AS earlier
            WHERE earlier.run_id = passed.run_id AND earlier.step_index = passed.step_index
            AND earlier.attempt < passed.attempt AND earlier.state = 'finished'
            AND earlier.phase NOT IN ('rebuild', 'always')
        ), 0) AND failed.state = 'failed' AND failed.phase NOT IN ('rebuild', 'always')
    ) AS took_us
    FROM attempts AS passed
    WHERE passed.attempt > 1 AND passed.state = 'finished' AND passed.phase NOT IN ('rebuild', 'always')
    AND passed.ended_at_us >= %(from)s AND passed.ended_at_us < %(until)s AND (
        %(workflow)s::text IS NULL
        OR (SELECT workflow FROM runs WHERE runs.run_id = passed.run_id) = %(workflow)s::text
    )
) AS recovered WHERE took_us IS NOT NULL;

-- runs_from: run ids that begin with a prefix
SELECT run_id FROM runs
WHERE run_id >= %(prefix)s AND run_id < %(prefix)s || chr(1114111) ORDER BY run_id LIMIT %(limit)s;

-- family: the run that this one goes back to, then all that do
SELECT root.family, families.run_id
FROM (SELECT coalesce((SELECT family FROM families WHERE run_id = %(run)s), %(run)s) COLLATE "C" AS family) AS root
LEFT JOIN families ON families.family = root.family ORDER BY families.run_id;

-- add_to_family: a linked run
INSERT INTO families (run_id, family) VALUES (%s, %s) ON CONFLICT (run_id) DO NOTHING;

-- claim: the first claim stands
INSERT INTO claims (family, step_id, args_digest, run_id, start) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (family, step_id, args_digest) DO NOTHING;

-- give_back_step: whatever a run has claimed of a step
DELETE FROM claims WHERE run_id = %s AND step_id = %s;

-- give_back_start: what one start of it has claimed
DELETE FROM claims WHERE run_id = %s AND step_id = %s AND start = %s;

-- attempts: of one run, in the order of its steps
SELECT run_id, step_index, step_id, attempt, delivery, state, verdict, failure_kind, failure_class,
    failure_signature, diff_hash, strategy, started_at_us, ended_at_us, phase
FROM attempts WHERE run_id = %s ORDER BY step_index, attempt;

-- attempts_seq: up to which event of a run its attempts are written as rows
SELECT attempts_seq FROM runs WHERE run_id = %s;

-- checkpoints: of one run, in the order of its steps
SELECT run_id, step_index, step_id, attempt, tree, manifest, stored_at_us, valid
FROM checkpoints WHERE run_id = %s ORDER BY step_index;

-- workflow_state: the state as it was folded last, and up to where
SELECT body, seq FROM workflow_state WHERE workflow = %s;

-- set_workflow_state: the state folded up to a sequence
INSERT INTO workflow_state (workflow, seq, body) VALUES (%s, %s, %s)
ON CONFLICT (workflow) DO UPDATE SET seq = excluded.seq, body = excluded.body;

-- ended: runs that are over since before a moment and that nobody holds, in the order of their ids
SELECT run_id, last.seq
FROM runs CROSS JOIN LATERAL (
    SELECT events.wall_us, events.seq FROM streams
    JOIN events ON events.stream_id = streams.id AND events.seq = streams.last_seq
    WHERE streams.name = 'run:' || runs.run_id OFFSET 0
) AS last
WHERE run_id > %(after)s AND submitted_at_us < %(before)s AND last.wall_us < %(before)s
AND status IN ('succeeded', 'failed', 'cancelled', 'dead_letter') AND wants_driver = 0
AND (SELECT owner IS NOT NULL AND expires_at > db_now() FROM leases WHERE leases.run_id = runs.run_id) IS NOT TRUE
ORDER BY run_id LIMIT %(limit)s;

-- ended_among: the same among these runs
SELECT run_id
FROM runs CROSS JOIN LATERAL (
    SELECT events.wall_us, events.seq FROM streams
    JOIN events ON events.stream_id = streams.id AND events.seq = streams.last_seq
    WHERE streams.name = 'run:' || runs.run_id OFFSET 0
) AS last
WHERE run_id = ANY (%s::text[]) AND last.wall_us < %s
AND status IN ('succeeded', 'failed', 'cancelled', 'dead_letter') AND wants_driver = 0
AND (SELECT owner IS NOT NULL AND expires_at > db_now() FROM leases WHERE leases.run_id = runs.run_id) IS NOT TRUE;

-- known_among: those of these runs that there are
SELECT run_id FROM runs WHERE run_id = ANY (%s::text[]);

-- roots_of: the runs that these linked runs go back to
SELECT run_id, family FROM families WHERE run_id = ANY (%s::text[]);

-- members_of: the linked runs that go back to these
SELECT family, run_id FROM families WHERE family = ANY (%s::text[]);

-- keys_of: the streams of the keys that runs were submitted under, which were written right behind their first events
SELECT keys.name, substr(streams.name, 5)
FROM streams JOIN events AS first ON first.stream_id = streams.id AND first.seq = 1
JOIN events AS taken ON taken.number = first.number + 1 AND taken.type = 'task.submission.key_taken'
JOIN streams AS keys ON keys.id = taken.stream_id
WHERE streams.name = ANY (%s::text[])
AND replace(taken.payload, '\u0000', '\u0020')::json ->> 'runId' = substr(streams.name, 5);

-- lock_to_forget: streams that are to go, and the one into which that is noted
SELECT lock_to_forget(%s::text[], %s);

-- written_above: streams with a fact of a transaction that began after this one
SELECT streams.name FROM streams JOIN events ON events.stream_id = streams.id AND events.seq = streams.last_seq
WHERE streams.name = ANY (%s::text[])
AND events.number > (SELECT base + (pg_current_xact_id()::text::bigint << 20) FROM numbering);

-- forget: runs, families and keys
SELECT forget(%s::text[], %s::text[], %s::text[]);

-- forget_heals: of runs
DELETE FROM heals WHERE run_id = ANY (%s::text[]);

-- patience_to_forget: a run may have a great many events
SET LOCAL statement_timeout = 30000;
