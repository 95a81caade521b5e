-- Version 2: the rows of attempts may lie behind the events while their run goes on, by at most a few hundred events.
-- `attempts_seq` says up to which event of the run's stream they were written; what is missing is folded when asked for.
ALTER TABLE runs ADD COLUMN attempts_seq INTEGER NOT NULL DEFAULT 0;
