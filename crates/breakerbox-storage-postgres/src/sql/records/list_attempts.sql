-- The attempts of the delivery $1 below the number $2, the newest first, at most $3.
SELECT a.number::bigint AS number, a.started_at, a.latency, a.status::bigint AS status, a.fault, a.detail, a.probe, a.response
FROM attempts a WHERE a.delivery = $1 AND a.number < $2 ORDER BY a.number DESC LIMIT $3
