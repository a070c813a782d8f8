-- Which of the endpoints with the ids $1 were deleted.
SELECT wanted.id FROM unnest($1) AS wanted (id) WHERE NOT EXISTS (SELECT FROM endpoints e WHERE e.id = wanted.id)
