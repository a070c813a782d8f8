-- Sends the message $2 to those who listen on the channel $1, when the transaction commits.
SELECT pg_notify($1, $2)
