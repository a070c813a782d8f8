-- Until the end of the transaction, no other inserts notifications in this schema.
SELECT pg_advisory_xact_lock(hashtextextended('breakerbox notifications ' || current_schema(), 0))
