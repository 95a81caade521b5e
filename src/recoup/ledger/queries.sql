-- One query each: a line `-- name: what it does`, then the statement. Loaded by queries.py.
-- The writes of cached rows are not here: they are made from the shapes in kernel/projection.py.

-- stream_id: the number of a stream
SELECT id FROM streams WHERE name = ?;

-- add_stream: a new stream; its number is the last row id
INSERT INTO streams (name) VALUES (?);

-- last_place: the last place taken before this one (hence a stream's head, or the end of the stream before it)
SELECT place FROM events WHERE place < ? ORDER BY place DESC LIMIT 1;

-- add_event: one fact at its place
INSERT INTO events (place, wall_us, boot_us, boot_id, type, payload) VALUES (?, ?, ?, ?, ?, ?);

-- events_between: facts in order, without both ends
SELECT place, wall_us, boot_us, boot_id, CAST(type AS BLOB), CAST(payload AS BLOB)
FROM events WHERE place > ? AND place < ? ORDER BY place LIMIT ?;

-- events_arrived: facts of all streams in the order in which they came
SELECT events.id, streams.name, events.place & 4294967295, events.wall_us, events.boot_us, events.boot_id,
    CAST(events.type AS BLOB), CAST(events.payload AS BLOB)
FROM events CROSS JOIN streams ON streams.id = events.place >> 32 WHERE events.id > ? ORDER BY events.id LIMIT ?;

-- events_arrived_before: facts of all streams, the newest first
SELECT events.id, streams.name, events.place & 4294967295, events.wall_us, events.boot_us, events.boot_id,
    CAST(events.type AS BLOB), CAST(events.payload AS BLOB)
FROM events CROSS JOIN streams ON streams.id = events.place >> 32 WHERE events.id < ? ORDER BY events.id DESC LIMIT ?;

-- last_arrival: the fact that came last
SELECT id FROM events ORDER BY id DESC LIMIT 1;

-- event_at: the fact at a place, to be compared with what should be there
SELECT wall_us, boot_us, boot_id, type, payload FROM events WHERE place = ?;

-- streams_from: names that begin with a prefix
SELECT name FROM streams WHERE name >= ?1 AND name < ?1 || char(0x10FFFF) ORDER BY name;

-- heads_from: the last event of each stream whose name begins with a prefix
SELECT streams.name, events.place & 4294967295, events.wall_us, events.boot_us, events.boot_id
FROM streams CROSS JOIN events ON events.place = (
    SELECT place FROM events WHERE place < (streams.id + 1) << 32 ORDER BY place DESC LIMIT 1
) AND events.place >> 32 = streams.id
WHERE streams.name >= ?1 AND streams.name < ?1 || char(0x10FFFF) ORDER BY streams.name;

-- run_streams: the streams whose events have cached rows, oldest first (hence a run before those that reuse it)
SELECT id, name FROM streams WHERE name >= 'run:' AND name < 'run;' ORDER BY id;

-- add_policy: a policy body, once per digest
INSERT INTO policies (digest, body) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING;

-- policy_body: the policy with this digest
SELECT body FROM policies WHERE digest = ?;

-- add_escalation: one row of the people's inbox, once per id
INSERT INTO escalations (id, stream, reason, body, raised_at_us) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- inbox: escalations oldest first, behind a number; of runs (1), of probes (0), or of both (NULL)
SELECT number, id, stream, reason, body, state, assignee, raised_at_us FROM escalations
WHERE number > ?1 AND (?2 IS NULL OR (stream >= 'run:' AND stream < 'run;') = ?2) ORDER BY number LIMIT ?3;

-- inbox_in_state: the same of those in one state
SELECT number, id, stream, reason, body, state, assignee, raised_at_us FROM escalations
WHERE state = ?4 AND number > ?1 AND (?2 IS NULL OR (stream >= 'run:' AND stream < 'run;') = ?2)
ORDER BY number LIMIT ?3;

-- escalation: one of them
SELECT number, id, stream, reason, body, state, assignee, raised_at_us FROM escalations WHERE id = ?;

-- escalations_of: their ids, of one stream
SELECT id FROM escalations WHERE stream = ?;

-- forget_all_escalations: to be made anew from the events
DELETE FROM escalations;

-- told_of_escalations: events of all streams that make, change or end an escalation, in the order in which they came
SELECT streams.name, events.wall_us, events.boot_us, events.boot_id, events.type, CAST(events.payload AS BLOB)
FROM events CROSS JOIN streams ON streams.id = events.place >> 32
WHERE events.type IN ('Escalated', 'probe.reported', 'task.run.waiting', 'task.run.resumed', 'task.run.cancelled',
    'escalation.acknowledged', 'escalation.assigned', 'escalation.resolved')
ORDER BY events.id;

-- add_control: one row of the inbox, once per id
INSERT INTO controls (id, run_id, action, reason, actor, wall_us, boot_us, boot_id, step_id, argument, outcome, epoch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- acknowledge_control: the first acknowledgement counts
UPDATE controls SET outcome = ?, epoch = ? WHERE id = ? AND outcome IS NULL;

-- control_waits: whether a run's inbox holds something
SELECT EXISTS (SELECT 1 FROM controls WHERE run_id = ? AND outcome IS NULL);

-- waiting_controls: a run's inbox, oldest first
SELECT id, run_id, action, reason, actor, wall_us, boot_us, boot_id, step_id, argument, outcome, epoch
FROM controls WHERE run_id = ? AND outcome IS NULL ORDER BY number;

-- control: one control, dealt with or not
SELECT id, run_id, action, reason, actor, wall_us, boot_us, boot_id, step_id, argument, outcome, epoch
FROM controls WHERE id = ?;

-- held_epoch: the epoch under which a run is held; no row when it is free
SELECT epoch FROM leases WHERE run_id = ? AND owner IS NOT NULL;

-- lease: who drives a run, or did last
SELECT run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s FROM leases WHERE run_id = ?;

-- wanting: runs of queues that want a driver and have none, in the order of their ids
SELECT run_id, workflow, queue, priority, needs, due_us, submitted_at_us FROM runs
WHERE wants_driver AND queue IS NOT NULL AND run_id > ?
AND NOT EXISTS (SELECT 1 FROM leases INDEXED BY leases_held WHERE leases.run_id = runs.run_id AND owner IS NOT NULL)
ORDER BY run_id LIMIT ?;

-- held: runs of queues that want a driver, with the lease of the one they have or have lost
SELECT runs.run_id, workflow, queue, priority, needs, due_us, submitted_at_us,
    leases.run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s
FROM leases CROSS JOIN runs ON runs.run_id = leases.run_id
WHERE owner IS NOT NULL AND queue IS NOT NULL AND wants_driver ORDER BY runs.run_id LIMIT ?;

-- crowd_of_workflow: the leases of other runs of a workflow
SELECT leases.run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s
FROM leases CROSS JOIN runs ON runs.run_id = leases.run_id
WHERE owner IS NOT NULL AND runs.workflow = ? AND leases.run_id <> ?;

-- crowd_of_queue: the leases of other runs of a queue
SELECT leases.run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s
FROM leases CROSS JOIN runs ON runs.run_id = leases.run_id
WHERE owner IS NOT NULL AND runs.queue = ? AND leases.run_id <> ?;

-- keep_worker: as it described itself last
INSERT INTO workers (worker_id, body, wall_us, boot_us, boot_id) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (worker_id) DO UPDATE SET body = excluded.body, wall_us = excluded.wall_us,
    boot_us = excluded.boot_us, boot_id = excluded.boot_id;

-- forget_worker: it has gone
DELETE FROM workers WHERE worker_id = ?;

-- workers: in the order of their ids
SELECT worker_id, body, wall_us, boot_us, boot_id FROM workers ORDER BY worker_id;

-- grant_lease: a new holder under a new epoch
INSERT INTO leases (run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, wall_us = excluded.wall_us,
    boot_us = excluded.boot_us, boot_id = excluded.boot_id, ttl_s = excluded.ttl_s;

-- renew_lease: only by the epoch that holds it
UPDATE leases SET wall_us = ?, boot_us = ?, boot_id = ?, ttl_s = ?
WHERE run_id = ? AND epoch = ? AND owner IS NOT NULL;

-- release_lease: only by the epoch that holds it; the epoch stays
UPDATE leases SET owner = NULL WHERE run_id = ? AND epoch = ?;

-- rows_of_runs: around a question for ids and times (run_lists.py): with the sequence and the time of the last event, which the stream itself knows; without them, where they are missing
SELECT runs.run_id, workflow, status, delivery, runs.submitted_at_us, last.wall_us, reason, last.place & 4294967295,
    failure_class, worker, step_count, ended_at_us
FROM ({}) AS page CROSS JOIN runs ON runs.run_id = page.run_id
LEFT JOIN streams ON streams.name = 'run:' || runs.run_id
LEFT JOIN events AS last ON last.place = (
    SELECT place FROM events WHERE place < (streams.id + 1) << 32 ORDER BY place DESC LIMIT 1
) AND last.place >> 32 = streams.id
ORDER BY runs.submitted_at_us DESC, runs.run_id DESC;

-- tallies: how many runs there are with each status
SELECT status, count(*) FROM runs INDEXED BY runs_by_status GROUP BY status;

-- ends_counted: the newest end within a time that is one too many of its status; null when there are no more than may be counted
SELECT max((
    SELECT ended_at_us FROM runs INDEXED BY runs_by_end
    WHERE runs.status = ends.status AND ended_at_us >= ? AND ended_at_us < ? ORDER BY ended_at_us DESC LIMIT 1 OFFSET ?
))
FROM (
    SELECT 'succeeded' AS status UNION ALL SELECT 'failed' UNION ALL SELECT 'cancelled' UNION ALL SELECT 'dead_letter'
) AS ends;

-- recoveries_counted: the same of attempts that followed others
SELECT ended_at_us FROM attempts WHERE attempt > 1 AND state = 'finished' AND ended_at_us >= ? AND ended_at_us < ?
ORDER BY ended_at_us DESC LIMIT 1 OFFSET ?;

-- heals_counted: the same of heals
SELECT healed_at_us FROM heals WHERE healed_at_us >= ? AND healed_at_us < ? ORDER BY healed_at_us DESC LIMIT 1 OFFSET ?;

-- ends: how many runs ended in each part of a time, by status; counted part by part, as that needs no sorting
WITH RECURSIVE parts (number, begin_us, end_us) AS (
    SELECT 0, :since, :since + :bucket
    UNION ALL SELECT number + 1, end_us, end_us + :bucket FROM parts WHERE end_us < :until
)
SELECT * FROM (
    SELECT parts.number, ends.status, (
        SELECT count(*) FROM runs INDEXED BY runs_by_end
        WHERE runs.status = ends.status AND ended_at_us >= max(parts.begin_us, :from)
        AND ended_at_us < min(parts.end_us, :until) AND (:workflow IS NULL OR workflow = :workflow)
    ) AS count
    FROM parts CROSS JOIN (
        SELECT 'succeeded' AS status UNION ALL SELECT 'failed' UNION ALL SELECT 'cancelled' UNION ALL SELECT 'dead_letter'
    ) AS ends
) WHERE count > 0;

-- heals: how many targets were healed in each part of a time
SELECT (healed_at_us - :since) / :bucket, count(*) FROM heals INDEXED BY heals_by_time
WHERE healed_at_us >= :from AND healed_at_us < :until
AND (:workflow IS NULL OR (SELECT workflow FROM runs WHERE runs.run_id = heals.run_id) = :workflow) GROUP BY 1;

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
    FROM attempts AS passed INDEXED BY attempts_recovered
    WHERE passed.attempt > 1 AND passed.state = 'finished' AND passed.phase NOT IN ('rebuild', 'always')
    AND passed.ended_at_us >= :from AND passed.ended_at_us < :until
    AND (:workflow IS NULL OR (SELECT workflow FROM runs WHERE runs.run_id = passed.run_id) = :workflow)
) WHERE took_us IS NOT NULL;

-- runs_from: run ids that begin with a prefix
SELECT run_id FROM runs WHERE run_id >= ?1 AND run_id < ?1 || char(0x10FFFF) ORDER BY run_id LIMIT ?2;

-- family_of: the run that a linked run goes back to; no row when it reuses none
SELECT family FROM families WHERE run_id = ?;

-- family: the linked runs that go back to this one
SELECT run_id FROM families WHERE family = ? ORDER BY run_id;

-- add_to_family: a linked run
INSERT INTO families (run_id, family) VALUES (?, ?) ON CONFLICT (run_id) DO NOTHING;

-- claimant: the run that has claimed a step with these arguments in its family, and by which start
SELECT run_id, start FROM claims WHERE family = ? AND step_id = ? AND args_digest = ?;

-- claim: the first claim stands
INSERT INTO claims (family, step_id, args_digest, run_id, start) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (family, step_id, args_digest) DO NOTHING;

-- give_back_step: whatever a run has claimed of a step
DELETE FROM claims WHERE run_id = ? AND step_id = ?;

-- give_back_start: what one start of it has claimed
DELETE FROM claims WHERE run_id = ? AND step_id = ? AND start = ?;

-- attempts: of one run, in the order of its steps
SELECT run_id, step_index, step_id, attempt, delivery, state, verdict, failure_kind, failure_class,
    failure_signature, diff_hash, strategy, started_at_us, ended_at_us, phase
FROM attempts WHERE run_id = ? ORDER BY step_index, attempt;

-- attempts_seq: up to which event of a run its attempts are written as rows
SELECT attempts_seq FROM runs WHERE run_id = ?;

-- set_attempts_seq: they are written up to this one
UPDATE runs SET attempts_seq = ? WHERE run_id = ?;

-- checkpoints: of one run, in the order of its steps
SELECT run_id, step_index, step_id, attempt, tree, manifest, stored_at_us, valid
FROM checkpoints WHERE run_id = ? ORDER BY step_index;

-- workflow_state: the state as it was folded last, and up to where
SELECT body, seq FROM workflow_state WHERE workflow = ?;

-- set_workflow_state: the state folded up to a sequence
INSERT INTO workflow_state (workflow, seq, body) VALUES (?, ?, ?)
ON CONFLICT (workflow) DO UPDATE SET seq = excluded.seq, body = excluded.body;

-- ended: runs that are over since before a moment and that nobody holds, in the order of their ids
SELECT run_id, events FROM ended
WHERE run_id > ?1 AND +submitted_at_us < ?2 AND ended_at_us < ?2 AND held_until_us < ?2 ORDER BY run_id LIMIT ?3;

-- has_ended: the same of one run; no row when it has not, or is not known
SELECT 1 FROM ended WHERE run_id = ?1 AND ended_at_us < ?2 AND held_until_us < ?2;

-- run_is_known: whether there is such a run
SELECT EXISTS (SELECT 1 FROM runs WHERE run_id = ?);

-- key_of: the number of the stream of the key that a run was submitted under, which was written right behind its first event
SELECT taken.place >> 32
FROM events AS first JOIN events AS taken ON taken.id = first.id + 1
WHERE first.place = ?1 AND taken.type = 'task.submission.key_taken' AND json_extract(taken.payload, '$.runId') = ?2;

-- forget_events: of a stream, between both ends
DELETE FROM events WHERE place > ? AND place < ?;

-- forget_stream: its number is never given again
DELETE FROM streams WHERE id = ?;

-- forget_run: its row
DELETE FROM runs WHERE run_id = ?;

-- forget_attempts: of a run
DELETE FROM attempts WHERE run_id = ?;

-- forget_checkpoints: of a run
DELETE FROM checkpoints WHERE run_id = ?;

-- forget_heals: of a run
DELETE FROM heals WHERE run_id = ?;

-- forget_lease: of a run
DELETE FROM leases WHERE run_id = ?;

-- forget_controls: of a run
DELETE FROM controls WHERE run_id = ?;

-- forget_escalations: of a stream
DELETE FROM escalations WHERE stream = ?;

-- forget_family: who belongs to it
DELETE FROM families WHERE family = ?;

-- forget_claims: what was to be done once in it
DELETE FROM claims WHERE family = ?;
