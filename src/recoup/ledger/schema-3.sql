-- Version 3: the families of linked runs, what must be done once in a family, and the modes of workflows. All follow from
-- the events.

-- `family` is the run that all of them go back to through reuse. A run that reuses none has no row: it is its own.
CREATE TABLE families (
    run_id TEXT PRIMARY KEY,
    family TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX families_by_root ON families (family);

-- A step with these arguments is `run_id`'s to do. Never behind the events: two runs may want it at the same time.
CREATE TABLE claims (
    family      TEXT NOT NULL,
    step_id     TEXT NOT NULL,
    args_digest TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    start       TEXT NOT NULL,
    PRIMARY KEY (family, step_id, args_digest)
) WITHOUT ROWID;
CREATE INDEX claims_by_run ON claims (run_id, step_id);

-- The links that were recorded before there was a table for them.
INSERT INTO families (run_id, family)
WITH RECURSIVE
    links (run_id, parent) AS (
        SELECT substr(streams.name, 5), json_extract(events.payload, '$.reuseFrom')
        FROM streams JOIN events ON events.place = (streams.id << 32) + 1
        WHERE streams.name >= 'run:' AND streams.name < 'run;' AND events.type = 'task.run.submitted'
    ),
    found (run_id, family) AS (
        SELECT run_id, parent FROM links
        WHERE parent IN (SELECT run_id FROM links WHERE parent IS NULL) OR parent NOT IN (SELECT run_id FROM links)
        UNION
        SELECT links.run_id, found.family FROM links JOIN found ON links.parent = found.run_id
    )
SELECT run_id, family FROM found;

-- States that were folded before a workflow had a mode know nothing of it: they are folded anew.
DELETE FROM workflow_state;
