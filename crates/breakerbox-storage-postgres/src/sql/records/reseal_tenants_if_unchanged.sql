-- Replaces the sealed values $2 of the tenants $1 by $3.
UPDATE tenants t SET sealed = r.new FROM unnest($1, $2, $3) AS r (row, old, new) WHERE t.row = r.row AND t.sealed = r.old
