CREATE TABLE hints (
    number INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    lane TEXT NOT NULL,
    priority INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    at_wall_us INTEGER NOT NULL,
    token TEXT,
    again_lane TEXT,
    again_priority INTEGER,
    again_us INTEGER
) STRICT;

CREATE INDEX hints_ready ON hints (lane, priority DESC, number) WHERE ready = 1;

CREATE INDEX hints_later ON hints (at_us) WHERE ready = 0;

CREATE TABLE marks (
    boot_id TEXT NOT NULL,
    additions INTEGER NOT NULL
) STRICT;
