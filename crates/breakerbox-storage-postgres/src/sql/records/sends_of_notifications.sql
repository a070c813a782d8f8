-- The progress of the notifications with the ids $1 at their targets.
SELECT notification, target, state::bigint AS state, tries::bigint AS tries, due_at, settled_at, answer, message
FROM notification_sends WHERE notification = ANY ($1) ORDER BY notification, target
