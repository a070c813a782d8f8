-- The lanes of dynamic URLs, locked so that none is forgotten before the transaction ends. $1, $2: tenant and key of each.
SELECT n.nth, l.id FROM unnest($1, $2) WITH ORDINALITY AS n (tenant, key, nth)
    JOIN lanes l ON l.tenant = n.tenant AND l.key = n.key
FOR KEY SHARE OF l
