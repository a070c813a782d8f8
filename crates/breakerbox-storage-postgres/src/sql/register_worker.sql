-- Registers a process. $1: the time, NULL: the server's; $2: its name; $3: its version.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS server
)
INSERT INTO workers (number, name, started_at, seen_at, version)
SELECT nextval('worker_numbers'), $2, coalesce($1, server), coalesce($1, server), $3 FROM clock
RETURNING number, (SELECT server FROM clock), current_setting('synchronous_commit')
