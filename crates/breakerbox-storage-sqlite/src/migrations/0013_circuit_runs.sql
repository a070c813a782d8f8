-- The runs of failures of circuits: the failures since the latest success, however far apart. A circuit without a run has no row.
CREATE TABLE circuit_runs (
    key   TEXT PRIMARY KEY,             -- the circuit's key
    epoch INTEGER NOT NULL,             -- of the circuit's record; 0: it has none
    count INTEGER NOT NULL,
    began INTEGER NOT NULL,             -- when the first of them failed
    last  INTEGER NOT NULL              -- when the last of them failed; a week later the run is forgotten
) STRICT, WITHOUT ROWID;
CREATE INDEX circuit_runs_by_age ON circuit_runs (last);
