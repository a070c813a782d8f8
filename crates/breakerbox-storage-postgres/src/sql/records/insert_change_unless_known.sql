INSERT INTO circuit_changes (key, epoch, at, change, owner) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (key, epoch) DO NOTHING
