-- Removes $2 notifications from those that wait for the target $1, and $3 from those that were not kept and not yet mentioned.
UPDATE notification_targets SET waiting = greatest(waiting - $2, 0), not_kept = greatest(not_kept - $3, 0) WHERE name = $1
