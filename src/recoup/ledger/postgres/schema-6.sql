-- Version 6: an event that was pruned is told apart from one that was lost, by the numbers of events and not by clocks.

-- Each start of a server that a writer or a prune has met, in the order of this database's own history, and the number from
-- which its events begin. An event of an earlier start with such a number is not part of this history: an older copy was put
-- back, or a standby that was behind has taken over.
CREATE TABLE server_starts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    start        text COLLATE "C" NOT NULL UNIQUE,
    first_number bigint NOT NULL
);

-- To be called on every connection that writes, before anything is written there. Names this start of the server.
CREATE FUNCTION note_start() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    this_start text := extract(epoch FROM pg_postmaster_start_time())::text;
BEGIN
    IF NOT EXISTS (SELECT FROM server_starts WHERE start = this_start) THEN
        INSERT INTO server_starts (start, first_number) SELECT this_start, coalesce(max(number), 0) + 1 FROM events
        ON CONFLICT (start) DO NOTHING;
    END IF;
    RETURN this_start;
END $$;

-- The number of the last of so many events that this transaction has written in one go.
CREATE FUNCTION last_number(added bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT base + (pg_current_xact_id()::text::bigint << 20) + added FROM numbering);
END $$;

-- As append_unless_changed; gives the number of the last event.
CREATE FUNCTION append_numbered(
    names text[], starts bigint[], ends bigint[], leased text[], epochs bigint[], quiet text[], added json
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM append_unless_changed(names, starts, ends, leased, epochs, quiet, added);
    RETURN last_number(json_array_length(added));
END $$;

-- As put_events; gives the number of the last event.
CREATE FUNCTION put_numbered(batch json) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM put_events(batch);
    RETURN last_number(json_array_length(batch -> 'events'));
END $$;
