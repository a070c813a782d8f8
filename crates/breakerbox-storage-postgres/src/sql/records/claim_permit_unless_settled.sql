-- Two processes that claim the same permit wait for each other here, and one of them writes nothing.
INSERT INTO settled_permits (expires_at, id, settled, outcome) VALUES ($1, $2, $3, $4) ON CONFLICT (expires_at, id) DO NOTHING
