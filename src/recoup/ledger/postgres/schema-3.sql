-- Version 3: the inbox of escalations. All of it follows from the events.

-- What people said of it, and whether its run has gone on without them: each is written by the events of one stream, so
-- that it does not matter which of two came first.
ALTER TABLE escalations
    ADD COLUMN said text COLLATE "C" NOT NULL DEFAULT 'open',
    ADD COLUMN gone_on bigint NOT NULL DEFAULT 0,
    ADD COLUMN assignee text,
    ADD COLUMN raised_at_us bigint NOT NULL DEFAULT 0;
ALTER TABLE escalations ADD COLUMN state text COLLATE "C"
    GENERATED ALWAYS AS (CASE WHEN gone_on = 1 THEN 'resolved' ELSE said END) STORED;
CREATE INDEX escalations_by_state ON escalations (state, number);

-- Those that were there before. The escape of NUL, which a database cannot read, is read as a space.
UPDATE escalations SET raised_at_us = raised.wall_us
FROM (
    SELECT streams.name, events.wall_us, replace(events.payload, '\u0000', '\u0020')::json AS body
    FROM streams JOIN events ON events.stream_id = streams.id
    WHERE streams.name IN (SELECT stream FROM escalations) AND events.type = 'Escalated'
) AS raised
WHERE raised.name = escalations.stream
AND escalations.id IN (raised.body ->> 'escalationId', raised.body ->> 'escalation_id');
UPDATE escalations SET gone_on = 1
WHERE stream >= 'run:' AND stream < 'run;' AND (
    stream NOT IN (SELECT 'run:' || run_id FROM runs WHERE status IN ('escalated', 'dead_letter'))
    OR number < (SELECT max(later.number) FROM escalations AS later WHERE later.stream = escalations.stream)
);
