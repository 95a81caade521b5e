-- A row waits (token is null) or is taken. It is ready as soon as it may be taken; until then at_us says when that will
-- be, on the boot clock: the time for which it was put off, or the end of its hold.

-- put: a hint, or what it changes in the one that is there.
INSERT INTO hints (run_id, lane, priority, ready, at_us, at_wall_us)
VALUES (:run_id, :lane, :priority, :ready, :at_us, :at_wall_us)
ON CONFLICT (run_id) DO UPDATE SET
    lane = iif(token IS NULL, excluded.lane, lane),
    priority = iif(token IS NULL, max(priority, excluded.priority), priority),
    ready = iif(token IS NULL, max(ready, excluded.ready), ready),
    at_us = iif(token IS NULL, min(at_us, excluded.at_us), at_us),
    at_wall_us = iif(token IS NULL, min(at_wall_us, excluded.at_wall_us), at_wall_us),
    again_lane = iif(token IS NULL, NULL, excluded.lane),
    again_priority = iif(token IS NULL, NULL, max(coalesce(again_priority, excluded.priority), excluded.priority)),
    again_us = iif(token IS NULL, NULL, min(coalesce(again_us, excluded.at_us), excluded.at_us))

-- promote: what has become due, or has been held too long.
UPDATE hints SET ready = 1 WHERE ready = 0 AND at_us <= ?

-- ready_lanes: each lane once, by one look into the index for each.
WITH RECURSIVE lanes (lane) AS (
    SELECT min(lane) FROM hints WHERE ready = 1
    UNION ALL
    SELECT (SELECT min(lane) FROM hints WHERE ready = 1 AND lane > lanes.lane) FROM lanes WHERE lane IS NOT NULL
)
SELECT lane FROM lanes WHERE lane IS NOT NULL

-- due_lanes: of what would be promoted now.
SELECT DISTINCT lane FROM hints WHERE ready = 0 AND at_us <= ?

-- first_of_lane: best first.
SELECT priority, number, run_id, lane FROM hints WHERE ready = 1 AND lane = ? ORDER BY priority DESC, number LIMIT ?

-- hold: for its new taker.
UPDATE hints SET ready = 0, at_us = ?, at_wall_us = ?, token = ? WHERE run_id = ?

-- keep: for the one who has it.
UPDATE hints SET ready = 0, at_us = ?, at_wall_us = ? WHERE run_id = ? AND token = ?

-- held: what its taker knows nothing of.
SELECT lane, priority, again_lane, again_priority, again_us FROM hints WHERE run_id = ? AND token = ?

-- remove: for good.
DELETE FROM hints WHERE run_id = ?

-- put_back: it waits again; if only later, at the end: otherwise those who are refused again and again would be asked
-- first, and nobody else ever.
UPDATE hints
SET number = iif(?, (SELECT max(number) + 1 FROM hints), number),
    lane = ?, priority = ?, ready = ?, at_us = ?, at_wall_us = ?,
    token = NULL, again_lane = NULL, again_priority = NULL, again_us = NULL
WHERE run_id = ?

-- count_additions: so that whoever waits can tell.
UPDATE marks SET additions = additions + 1

-- additions: since the file was made.
SELECT additions FROM marks

-- next_at: the first that is not ready and was not due then.
SELECT min(at_us) FROM hints WHERE ready = 0 AND at_us > ?

-- depths: by lane.
SELECT lane,
    count(*) FILTER (WHERE at_us <= :now_us),
    count(*) FILTER (WHERE at_us > :now_us AND token IS NULL),
    count(*) FILTER (WHERE at_us > :now_us AND token IS NOT NULL),
    min(at_us)
FROM hints GROUP BY lane

-- hinted: of a JSON list of runs.
SELECT run_id FROM hints WHERE run_id IN (SELECT value FROM json_each(?))

-- boot: whose clock the times belong to.
SELECT boot_id FROM marks

-- begin_marks: of a new file.
INSERT INTO marks (boot_id, additions) VALUES (?, ?)

-- rebooted: nobody of before lives; what was put off keeps its wall time.
UPDATE hints
SET ready = token IS NOT NULL OR at_wall_us <= :wall_us,
    at_us = iif(token IS NOT NULL, :boot_us, :boot_us + max(0, at_wall_us - :wall_us)),
    at_wall_us = iif(token IS NOT NULL, :wall_us, at_wall_us),
    token = NULL, again_lane = NULL, again_priority = NULL, again_us = NULL

-- set_boot: from now on.
UPDATE marks SET boot_id = ?
