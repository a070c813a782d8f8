-- Permits of the decision API that were settled, so that none counts twice. Kept until a little after they would have expired.
--
-- The key begins with the time: rows are added near the end, and what is old is one range at the beginning.

CREATE TABLE settled_permits (
    expires_at INTEGER NOT NULL,
    id         BLOB NOT NULL,           -- 16 random bytes
    settled    INTEGER NOT NULL,        -- what the circuit made of it
    outcome    INTEGER NOT NULL,        -- what was said of the call
    PRIMARY KEY (expires_at, id)
) STRICT, WITHOUT ROWID;
