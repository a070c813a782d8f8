-- The latest notification that the circuit store, the subject $1, is lost or back.
SELECT kind, at FROM notifications WHERE subject = $1 AND kind IN ('store_lost', 'store_back') ORDER BY id DESC LIMIT 1
