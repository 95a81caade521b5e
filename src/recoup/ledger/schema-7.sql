-- Version 7: the inbox of escalations. All of it follows from the events.

-- What people said of it, and whether its run has gone on without them: each is written by the events of one stream, so
-- that it does not matter which of two came first.
ALTER TABLE escalations ADD COLUMN said TEXT NOT NULL DEFAULT 'open';
ALTER TABLE escalations ADD COLUMN gone_on INTEGER NOT NULL DEFAULT 0;
ALTER TABLE escalations ADD COLUMN assignee TEXT;
ALTER TABLE escalations ADD COLUMN raised_at_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE escalations ADD COLUMN state TEXT AS (CASE WHEN gone_on THEN 'resolved' ELSE said END) VIRTUAL;
CREATE INDEX escalations_by_state ON escalations (state, number);

-- Those that were there before.
UPDATE escalations SET raised_at_us = raised.wall_us
FROM (
    SELECT streams.name, events.wall_us, events.payload FROM streams
    CROSS JOIN events ON events.place > streams.id << 32 AND events.place < (streams.id + 1) << 32
    WHERE streams.name IN (SELECT stream FROM escalations) AND events.type = 'Escalated'
) AS raised
WHERE raised.name = escalations.stream
AND escalations.id IN (json_extract(raised.payload, '$.escalationId'), json_extract(raised.payload, '$.escalation_id'));
UPDATE escalations SET gone_on = 1
WHERE stream >= 'run:' AND stream < 'run;' AND (
    stream NOT IN (SELECT 'run:' || run_id FROM runs WHERE status IN ('escalated', 'dead_letter'))
    OR number < (SELECT max(later.number) FROM escalations AS later WHERE later.stream = escalations.stream)
);
