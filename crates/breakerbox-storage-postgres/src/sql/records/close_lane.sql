-- Closes the lane $1 at the time $2: nothing is leased from it any more, and what waits in it counts as cancelled.
INSERT INTO closed_lanes (lane, closed_at) VALUES ($1, $2) ON CONFLICT (lane) DO NOTHING
