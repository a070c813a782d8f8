-- Fan-outs that are under way: deliveries that did not fit into the transaction that accepted their event. Their ids are
-- reserved: the deliveries of event E with fan_out N are E + 1 to E + N, whenever their rows are written.

-- The endpoints that were matched at accept. Fan-outs of the same endpoints share a row.
CREATE TABLE audiences (
    id        INTEGER PRIMARY KEY,      -- the event that it was written for first
    endpoints BLOB NOT NULL             -- 16 bytes each: the lane, and the microseconds after which its work expires (0: never)
) STRICT;

CREATE TABLE fan_outs (
    tenant   INTEGER NOT NULL,
    event    INTEGER NOT NULL,
    audience INTEGER NOT NULL,
    position INTEGER NOT NULL,          -- how many of the audience have a delivery
    due_at   INTEGER NOT NULL,          -- of its deliveries
    PRIMARY KEY (tenant, event)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX fan_outs_of_event ON fan_outs (event);
CREATE INDEX fan_outs_of_audience ON fan_outs (audience);

-- Lanes of dynamic URLs, the longest unused first: they are forgotten when nothing waits in them. Rows of empty backlogs are not
-- kept any more.
CREATE INDEX lanes_by_use ON lanes (used_at);
DELETE FROM backlogs WHERE count = 0;

-- Since when a lane is closed: what waits in it counts as cancelled then.
ALTER TABLE closed_lanes ADD COLUMN closed_at INTEGER NOT NULL DEFAULT 0;
