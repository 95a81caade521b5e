-- Version 5: runs that ended long ago are forgotten, with everything that belongs to them.

CREATE INDEX controls_by_run ON controls (run_id);
CREATE INDEX escalations_by_stream ON escalations (stream);

-- Runs that are over: no other delivery follows. When that was, and until when somebody holds them nevertheless. The plus
-- keeps SQLite from looking for them by their status: that is nearly all runs, which it would have to sort.
CREATE VIEW ended AS
SELECT runs.run_id, runs.submitted_at_us, last.wall_us AS ended_at_us, last.place & 4294967295 AS events,
    CASE WHEN leases.owner IS NULL THEN 0 ELSE leases.wall_us + leases.ttl_s * 1000000 END AS held_until_us
FROM runs
JOIN streams ON streams.name = 'run:' || runs.run_id
JOIN events AS last ON last.place = (
    SELECT place FROM events WHERE place < (streams.id + 1) << 32 ORDER BY place DESC LIMIT 1
)
LEFT JOIN leases ON leases.run_id = runs.run_id
WHERE +runs.status IN ('succeeded', 'failed', 'cancelled', 'dead_letter') AND NOT runs.wants_driver;
