-- Sends each of the messages $2 to the listeners on the channel $1. Nothing is stored.
SELECT count(pg_notify($1::text, message)) FROM unnest($2::text[]) AS message;
