-- Hands out odd milliseconds for large ranges of ids, each once. $1: the present one; $2: how many.
INSERT INTO meta AS m (name, value) VALUES ('large_ids', $1 + 2 * ($2 - 1))
ON CONFLICT (name) DO UPDATE SET value = greatest(m.value + 2, $1) + 2 * ($2 - 1)
RETURNING value - 2 * ($2 - 1)
