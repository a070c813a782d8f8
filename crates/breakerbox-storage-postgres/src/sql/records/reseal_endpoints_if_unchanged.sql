-- Replaces the sealed values $2 of the endpoints $1 by $3.
UPDATE endpoints e SET sealed = r.new FROM unnest($1, $2, $3) AS r (id, old, new) WHERE e.id = r.id AND e.sealed = r.old
