-- The settlements of permits, given by when they expire ($1) and their ids ($2).
SELECT p.id, p.settled::bigint, p.outcome::bigint FROM unnest($1, $2) AS wanted (expires_at, id)
JOIN settled_permits p ON p.expires_at = wanted.expires_at AND p.id = wanted.id
