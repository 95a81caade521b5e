-- Version 4: runs that workers look for, and the workers themselves.

-- `queue` NULL: only people drive it. `needs` are capabilities with commas between. `due_us` 0: at once. All follow from
-- the events.
ALTER TABLE runs ADD COLUMN queue TEXT;
ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN needs TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN due_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN wants_driver INTEGER NOT NULL DEFAULT 1;
CREATE INDEX runs_wanting ON runs (run_id) WHERE wants_driver AND queue IS NOT NULL;

-- Few rows, whatever the number of leases that were ever given.
CREATE INDEX leases_held ON leases (run_id) WHERE owner IS NOT NULL;

-- Coordination: who was there last, and when that was.
CREATE TABLE workers (
    worker_id TEXT PRIMARY KEY,
    body      TEXT NOT NULL,
    wall_us   INTEGER NOT NULL,
    boot_us   INTEGER NOT NULL,
    boot_id   TEXT NOT NULL
) WITHOUT ROWID;
