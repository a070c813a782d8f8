-- Locks the directory until the end of the transaction, and returns its version.
SELECT number FROM directory_version FOR UPDATE
