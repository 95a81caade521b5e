-- Version 6: lists of runs by what went wrong and by who drove them, and histories. All follow from the events.

-- `worker`: who drives it, or did last; older events do not say. `ended_at_us` NULL: it is not over.
ALTER TABLE runs ADD COLUMN failure_class TEXT;
ALTER TABLE runs ADD COLUMN worker TEXT;
ALTER TABLE runs ADD COLUMN step_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN ended_at_us INTEGER;
ALTER TABLE attempts ADD COLUMN phase TEXT NOT NULL DEFAULT 'main';

CREATE TABLE heals (
    run_id       TEXT NOT NULL,
    step_index   INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    healed_at_us INTEGER NOT NULL,
    PRIMARY KEY (run_id, step_index, attempt)
) WITHOUT ROWID;

-- What was recorded before there were columns for it. A class is that of the last failure, if nobody began anew since; an
-- end is the last word about the run.
CREATE TEMP TABLE last_words AS
SELECT substr(streams.name, 5) AS run_id,
    max(events.place) FILTER (WHERE events.type NOT IN ('task.run.waiting', 'task.run.blocked',
        'task.run.succeeded', 'task.run.cancelled')) AS failure,
    max(events.place) FILTER (WHERE events.type IN ('task.run.started', 'task.run.resumed')) AS delivered,
    max(events.place) AS word
FROM streams CROSS JOIN events ON events.place > streams.id << 32 AND events.place < (streams.id + 1) << 32
WHERE streams.name >= 'run:' AND streams.name < 'run;'
AND events.type IN ('task.run.submitted', 'task.run.started', 'task.run.resumed', 'task.run.waiting', 'task.run.blocked',
    'task.run.succeeded', 'task.run.failed', 'task.run.dead_lettered', 'task.run.cancelled', 'Escalated')
GROUP BY streams.id;
UPDATE runs SET
    failure_class = (
        SELECT json_extract(events.payload, '$.failureClass') FROM events
        WHERE events.place = last_words.failure
        AND events.type IN ('task.run.failed', 'task.run.dead_lettered', 'Escalated')
    ),
    worker = (SELECT json_extract(events.payload, '$.worker') FROM events WHERE events.place = last_words.delivered),
    ended_at_us = (
        SELECT events.wall_us FROM events WHERE events.place = last_words.word
        AND (events.type IN ('task.run.succeeded', 'task.run.dead_lettered', 'task.run.cancelled')
            OR events.type = 'task.run.failed' AND NOT json_extract(events.payload, '$.retryable'))
    )
FROM last_words WHERE runs.run_id = last_words.run_id;
DROP TABLE last_words;
UPDATE runs SET step_count = coalesce((
    SELECT json_array_length(events.payload, '$.plan.steps')
    FROM streams JOIN events ON events.place = (streams.id << 32) + 1
    WHERE streams.name = 'run:' || runs.run_id
), 0);
UPDATE attempts SET phase = begun.phase
FROM (
    SELECT substr(streams.name, 5) AS run_id, json_extract(events.payload, '$.stepIndex') AS step_index,
        json_extract(events.payload, '$.attempt') AS attempt, json_extract(events.payload, '$.phase') AS phase,
        max(events.place)
    FROM events JOIN streams ON streams.id = events.place >> 32
    WHERE events.type = 'task.step.attempt.started' GROUP BY 1, 2, 3
) AS begun
WHERE begun.phase <> 'main' AND attempts.run_id = begun.run_id AND attempts.step_index = begun.step_index
AND attempts.attempt = begun.attempt;
INSERT INTO heals (run_id, step_index, attempt, healed_at_us)
SELECT substr(streams.name, 5), json_extract(events.payload, '$.stepIndex'),
    coalesce(json_extract(events.payload, '$.attempt'), 0), events.wall_us
FROM events JOIN streams ON streams.id = events.place >> 32
WHERE events.type = 'target.healed' AND streams.name >= 'run:' AND streams.name < 'run;'
ORDER BY events.place
ON CONFLICT (run_id, step_index, attempt) DO UPDATE SET healed_at_us = excluded.healed_at_us;

-- What else is asked for beside the first columns is there to be read from the index alone.
CREATE INDEX runs_by_both ON runs (workflow, status, submitted_at_us);
CREATE INDEX runs_by_class ON runs (failure_class, status, submitted_at_us) WHERE failure_class IS NOT NULL;
CREATE INDEX runs_by_worker ON runs (worker, status, submitted_at_us) WHERE worker IS NOT NULL;
CREATE INDEX runs_by_end ON runs (status, ended_at_us, workflow) WHERE ended_at_us IS NOT NULL;
CREATE INDEX attempts_recovered ON attempts (ended_at_us) WHERE attempt > 1 AND state = 'finished';
CREATE INDEX heals_by_time ON heals (healed_at_us);
