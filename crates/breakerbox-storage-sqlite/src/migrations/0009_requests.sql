-- Idempotency keys of all requests that create something, and not of events alone: what was created, and the response unless it
-- holds a secret. The tenant 0 stands for the operator.
ALTER TABLE idempotency_keys ADD COLUMN created TEXT;
ALTER TABLE idempotency_keys ADD COLUMN status INTEGER;
ALTER TABLE idempotency_keys ADD COLUMN revision INTEGER;
ALTER TABLE idempotency_keys ADD COLUMN response BLOB;
