-- Creates lanes of dynamic URLs that do not exist, and notes that the others are in use.
-- $1, $2, $3: id, tenant and key of each; $4: the time; $5: what was used before this time is noted again.
INSERT INTO lanes AS l (id, tenant, key, used_at)
SELECT n.id, n.tenant, n.key, $4 FROM unnest($1, $2, $3) AS n (id, tenant, key) ORDER BY n.tenant, n.key
ON CONFLICT (tenant, key) DO UPDATE SET used_at = excluded.used_at WHERE l.used_at < $5
