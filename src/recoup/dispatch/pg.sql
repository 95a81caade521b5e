-- What pgqueuer's calls cannot do, on its own table. A hint that comes while the run's one is taken is kept in the row's
-- headers as "again", until that is done. A row is its taker's as long as it carries his queue_manager_id: a new one for
-- every taking.

-- lanes: those that have a row which may be due, and the time of the look.
WITH RECURSIVE queued (lane) AS (
    (SELECT entrypoint FROM recoup.pgqueuer WHERE status = 'queued' ORDER BY entrypoint LIMIT 1)
    UNION ALL
    SELECT (
        SELECT entrypoint FROM recoup.pgqueuer
        WHERE status = 'queued' AND entrypoint > queued.lane ORDER BY entrypoint LIMIT 1
    ) FROM queued WHERE lane IS NOT NULL
), stalled (lane) AS (
    SELECT DISTINCT entrypoint FROM recoup.pgqueuer WHERE status = 'picked' AND heartbeat < now() - $1::interval
)
SELECT now() AS looked, ARRAY(
    SELECT lane FROM queued WHERE lane IS NOT NULL UNION SELECT lane FROM stalled
) AS lanes

-- forward: bring waiting ones forward, leave word with taken ones.
WITH new AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::int[]) AS new (key, lane, priority)
), locked AS MATERIALIZED (
    SELECT id FROM recoup.pgqueuer
    WHERE dedupe_key = ANY ($1::text[]) AND status = ANY (ARRAY['queued', 'picked']::recoup.pgqueuer_status[])
    ORDER BY id FOR UPDATE
), forward AS (
    UPDATE recoup.pgqueuer AS job SET
        updated = now(),
        entrypoint = CASE job.status WHEN 'queued' THEN new.lane ELSE job.entrypoint END,
        priority = CASE job.status WHEN 'queued' THEN greatest(job.priority, new.priority) ELSE job.priority END,
        execute_after = CASE job.status
            WHEN 'queued' THEN least(job.execute_after, now() + $4::interval) ELSE job.execute_after
        END,
        headers = CASE job.status WHEN 'queued' THEN NULL ELSE jsonb_build_object('again', jsonb_build_object(
            'lane', new.lane,
            'priority', greatest((job.headers #>> '{again,priority}')::int, new.priority),
            'at_s', least((job.headers #>> '{again,at_s}')::float8, extract(epoch FROM now() + $4::interval)::float8)
        )) END
    FROM new, locked
    WHERE job.id = locked.id AND job.dedupe_key = new.key
        AND job.status = ANY (ARRAY['queued', 'picked']::recoup.pgqueuer_status[])
    RETURNING job.dedupe_key, job.status
)
SELECT dedupe_key AS key, CASE status WHEN 'queued' THEN pg_notify($5, $6) END FROM forward

-- remove: unless they shall come back.
DELETE FROM recoup.pgqueuer AS hint USING unnest($1::bigint[], $2::uuid[]) AS mine (id, taker)
WHERE hint.id = mine.id AND queue_manager_id = mine.taker AND status = 'picked'
    AND NOT coalesce(headers ? 'again', false)
RETURNING hint.id AS id

-- discard: rows that are no hints.
DELETE FROM recoup.pgqueuer WHERE id = ANY ($1::bigint[]) AND queue_manager_id = $2::uuid RETURNING id

-- put_back: the hint that came meanwhile, the one that goes back, or of both the best.
WITH back AS (
    UPDATE recoup.pgqueuer SET
        -- Who comes back later stands at the end: otherwise those who are refused again and again would be asked first,
        -- and nobody else ever.
        id = CASE
            WHEN $3::interval > interval '0' THEN nextval(pg_get_serial_sequence('recoup.pgqueuer', 'id')) ELSE id
        END,
        status = 'queued',
        updated = now(),
        queue_manager_id = NULL,
        headers = NULL,
        entrypoint = coalesce(headers #>> '{again,lane}', entrypoint),
        priority = CASE
            WHEN $3::interval IS NULL THEN (headers #>> '{again,priority}')::int
            ELSE greatest(priority, (headers #>> '{again,priority}')::int)
        END,
        execute_after = least(to_timestamp((headers #>> '{again,at_s}')::float8), now() + $3::interval)
    WHERE id = $1::bigint AND queue_manager_id = $2::uuid AND status = 'picked'
        AND ($3::interval IS NOT NULL OR coalesce(headers ? 'again', false))
    RETURNING id
)
SELECT id, pg_notify($4, $5) FROM back

-- keep: those that are still the taker's.
UPDATE recoup.pgqueuer AS job SET heartbeat = now()
FROM unnest($1::bigint[], $2::uuid[]) AS mine (id, taker)
WHERE job.id = mine.id AND job.queue_manager_id = mine.taker AND job.status = 'picked'

-- next_in_s: when the first of these lanes is due, or the first hold ends that had not ended at that look.
SELECT extract(epoch FROM least(
    (
        SELECT min(first.at) FROM unnest($1::text[]) AS lanes (lane) CROSS JOIN LATERAL (
            SELECT execute_after AS at FROM recoup.pgqueuer
            WHERE status = 'queued' AND entrypoint = lanes.lane
            ORDER BY execute_after LIMIT 1
        ) AS first
    ),
    (
        SELECT min(heartbeat) + $3::interval FROM recoup.pgqueuer
        WHERE status = 'picked' AND heartbeat >= $2::timestamptz - $3::interval
    )
) - clock_timestamp())::float8 AS in_s

-- depths: by lane.
SELECT entrypoint AS lane,
    count(*) FILTER (WHERE due <= now()) AS waiting,
    count(*) FILTER (WHERE due > now() AND status = 'queued') AS delayed,
    count(*) FILTER (WHERE due > now() AND status = 'picked') AS taken,
    extract(epoch FROM now() - min(due))::float8 AS oldest_s
FROM (
    SELECT entrypoint, status,
        CASE status WHEN 'queued' THEN execute_after ELSE heartbeat + $1::interval END AS due
    FROM recoup.pgqueuer WHERE status = ANY (ARRAY['queued', 'picked']::recoup.pgqueuer_status[])
) AS rows
GROUP BY entrypoint

-- hinted: of these.
SELECT dedupe_key AS key FROM recoup.pgqueuer
WHERE dedupe_key = ANY ($1::text[]) AND status = ANY (ARRAY['queued', 'picked']::recoup.pgqueuer_status[])

-- tidy_log: pgqueuer's diary, of which nothing is read here; one process at a time, so many at once.
WITH turn AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($3::bigint) AS mine)
DELETE FROM recoup.pgqueuer_log WHERE (SELECT mine FROM turn) AND id IN (
    SELECT id FROM recoup.pgqueuer_log WHERE created < now() - $1::interval ORDER BY created LIMIT $2::int
)
RETURNING 1 AS gone

-- tidy_statistics: filled only by pgqueuer's own tools.
DELETE FROM recoup.pgqueuer_statistics WHERE created < now() - $1::interval

-- installed: by which version of pgqueuer, or null.
SELECT obj_description(to_regclass('recoup.pgqueuer'), 'pg_class') AS mark

-- schema_exists: whether somebody has made it.
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'recoup') AS found

-- tell_of_additions: pgqueuer's trigger tells of rows that are gone, too, which would wake everybody at every ending.
CREATE OR REPLACE TRIGGER tg_pgqueuer_changed AFTER INSERT ON recoup.pgqueuer
EXECUTE FUNCTION recoup.fn_pgqueuer_changed()
