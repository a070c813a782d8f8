-- Until the end of the transaction, no other request with the key $2 of the tenant $1 is carried out.
SELECT pg_advisory_xact_lock(hashtextextended('breakerbox key ' || current_schema() || ' ' || $1 || ' ' || $2, 0))
