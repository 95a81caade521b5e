-- Version 2: lists of runs by what went wrong and by who drove them, and histories. All follow from the events.

-- `worker`: who drives it, or did last; older events do not say. `ended_at_us` NULL: it is not over.
ALTER TABLE runs ADD COLUMN failure_class text COLLATE "C", ADD COLUMN worker text COLLATE "C",
    ADD COLUMN step_count bigint NOT NULL DEFAULT 0, ADD COLUMN ended_at_us bigint;
ALTER TABLE attempts ADD COLUMN phase text NOT NULL DEFAULT 'main';

CREATE TABLE heals (
    run_id       text COLLATE "C" NOT NULL,
    step_index   bigint NOT NULL,
    attempt      bigint NOT NULL,
    healed_at_us bigint NOT NULL,
    PRIMARY KEY (run_id, step_index, attempt)
);

-- What was recorded before there were columns for it. A class is that of the last failure, if nobody began anew since; an
-- end is the last word about the run. Text in JSON is kept as it was written: what a database cannot hold is escaped there, and
-- the one escape that it cannot read (of NUL) is read as a space: none of what is taken from it here can hold one.
WITH told AS (
    SELECT substr(streams.name, 5) AS run_id, events.seq, events.wall_us, events.type, events.payload,
        row_number() OVER (PARTITION BY events.stream_id ORDER BY events.seq DESC) AS back
    FROM streams JOIN events ON events.stream_id = streams.id
    WHERE streams.name LIKE 'run:%' AND events.type IN (
        'task.run.submitted', 'task.run.started', 'task.run.resumed', 'task.run.waiting', 'task.run.blocked',
        'task.run.succeeded', 'task.run.failed', 'task.run.dead_lettered', 'task.run.cancelled', 'Escalated'
    )
)
UPDATE runs SET ended_at_us = told.wall_us FROM told
WHERE told.run_id = runs.run_id AND told.back = 1 AND (
    told.type IN ('task.run.succeeded', 'task.run.dead_lettered', 'task.run.cancelled')
    OR told.type = 'task.run.failed' AND NOT (replace(told.payload, '\u0000', '\u0020')::json ->> 'retryable')::boolean
);
WITH told AS (
    SELECT substr(streams.name, 5) AS run_id, events.type, events.payload,
        row_number() OVER (PARTITION BY events.stream_id ORDER BY events.seq DESC) AS back
    FROM streams JOIN events ON events.stream_id = streams.id
    WHERE streams.name LIKE 'run:%' AND events.type IN (
        'task.run.submitted', 'task.run.started', 'task.run.resumed', 'task.run.failed', 'task.run.dead_lettered', 'Escalated'
    )
)
UPDATE runs SET failure_class = replace(told.payload, '\u0000', '\u0020')::json ->> 'failureClass' FROM told
WHERE told.run_id = runs.run_id AND told.back = 1
AND told.type IN ('task.run.failed', 'task.run.dead_lettered', 'Escalated');
WITH told AS (
    SELECT DISTINCT ON (streams.id) substr(streams.name, 5) AS run_id,
        replace(events.payload, '\u0000', '\u0020')::json ->> 'worker' AS worker
    FROM streams JOIN events ON events.stream_id = streams.id
    WHERE streams.name LIKE 'run:%' AND events.type IN ('task.run.started', 'task.run.resumed')
    ORDER BY streams.id, events.seq DESC
)
UPDATE runs SET worker = told.worker FROM told WHERE told.run_id = runs.run_id AND told.worker IS NOT NULL;
UPDATE runs SET step_count = json_array_length(replace(events.payload, '\u0000', '\u0020')::json -> 'plan' -> 'steps')
FROM streams JOIN events ON events.stream_id = streams.id AND events.seq = 1
WHERE streams.name = 'run:' || runs.run_id AND events.type = 'task.run.submitted';
UPDATE attempts SET phase = begun.phase
FROM (
    SELECT DISTINCT ON (run_id, step_index, attempt) run_id, step_index, attempt, phase
    FROM (
        SELECT substr(streams.name, 5) AS run_id, events.seq, (told.body ->> 'stepIndex')::bigint AS step_index,
            (told.body ->> 'attempt')::bigint AS attempt, told.body ->> 'phase' AS phase
        FROM streams JOIN events ON events.stream_id = streams.id
        CROSS JOIN LATERAL (SELECT replace(events.payload, '\u0000', '\u0020')::json AS body) AS told
        WHERE streams.name LIKE 'run:%' AND events.type = 'task.step.attempt.started'
    ) AS every
    ORDER BY run_id, step_index, attempt, seq DESC
) AS begun
WHERE begun.phase <> 'main' AND attempts.run_id = begun.run_id AND attempts.step_index = begun.step_index
AND attempts.attempt = begun.attempt;
INSERT INTO heals (run_id, step_index, attempt, healed_at_us)
SELECT substr(streams.name, 5), (told.body ->> 'stepIndex')::bigint, coalesce((told.body ->> 'attempt')::bigint, 0),
    max(events.wall_us)
FROM streams JOIN events ON events.stream_id = streams.id
CROSS JOIN LATERAL (SELECT replace(events.payload, '\u0000', '\u0020')::json AS body) AS told
WHERE streams.name LIKE 'run:%' AND events.type = 'target.healed' GROUP BY 1, 2, 3;

CREATE INDEX runs_by_class ON runs (failure_class, status, submitted_at_us, run_id) WHERE failure_class IS NOT NULL;
CREATE INDEX runs_by_worker ON runs (worker, status, submitted_at_us, run_id) WHERE worker IS NOT NULL;
CREATE INDEX runs_by_end ON runs (ended_at_us, workflow, status) WHERE ended_at_us IS NOT NULL;
CREATE INDEX attempts_recovered ON attempts (ended_at_us) WHERE attempt > 1 AND state = 'finished';
CREATE INDEX heals_by_time ON heals (healed_at_us);
