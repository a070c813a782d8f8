-- Deletes finished deliveries with their attempts, unless they changed. $1: the deliveries; $2, $3: what was finished or failed until
-- then is old.
WITH gone AS (
    DELETE FROM finished f WHERE f.id = ANY ($1) AND f.finished_at <= CASE WHEN f.state = 3 THEN $3 ELSE $2 END RETURNING f.id
), tried AS (
    DELETE FROM attempts a USING gone g WHERE a.delivery = g.id
)
SELECT id FROM gone
