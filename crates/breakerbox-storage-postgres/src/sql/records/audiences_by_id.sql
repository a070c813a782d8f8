-- The endpoints of the audiences with the ids $1.
SELECT id, endpoints FROM audiences WHERE id = ANY ($1)
