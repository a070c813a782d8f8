-- What changed after the version $1 and up to $2, each object once, at most $3 of them. `first` is the oldest change that is
-- still stored: what changed before can't be told any more.
SELECT c.kind::bigint AS kind, c.id, (SELECT min(number) FROM directory_changes) AS first
FROM directory_changes c WHERE c.number > $1 AND c.number <= $2 GROUP BY c.kind, c.id LIMIT $3
