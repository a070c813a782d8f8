-- Voids the leases of earlier processes with a name. $1: the name; $2: the number of the process that has it now.
WITH held AS MATERIALIZED (
    SELECT d.id FROM deliveries d JOIN workers w ON w.number = d.worker
    WHERE d.state = 1 AND w.name = $1 AND w.number <> $2
    FOR UPDATE OF d SKIP LOCKED
), gone AS (
    DELETE FROM workers WHERE name = $1 AND number <> $2
)
UPDATE deliveries d SET state = 0, lease = NULL, lease_until = NULL, worker = NULL FROM held WHERE d.id = held.id
