-- Whether a delivery was brought forward for a probe in its present wait. That happens once in each wait.
ALTER TABLE deliveries ADD COLUMN pulled INTEGER NOT NULL DEFAULT 0;

-- Deliveries that back off and may be brought forward.
CREATE INDEX pullable ON deliveries (lane, due_at, failed_probe) WHERE state = 0 AND attempts > 0 AND pulled = 0;
