-- Stores the result of a message at the target $1: for each of the notifications $2 its new state $3 and when it is due $4.
-- $5: whether it was tried (1) or not (0); $6: the time; $7: the answer; $8: the id of the message. Returns how many no
-- longer wait.
WITH settled AS (
    UPDATE notification_sends s SET state = r.state, tries = s.tries + $5::int, due_at = r.due_at, settled_at = $6, answer = $7,
        message = $8
    FROM unnest($2, $3, $4) AS r (notification, state, due_at)
    WHERE s.notification = r.notification AND s.target = $1 AND s.state = 0
    RETURNING s.state
)
SELECT count(*) FROM settled WHERE state <> 0
