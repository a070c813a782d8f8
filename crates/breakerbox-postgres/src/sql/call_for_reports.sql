-- Tells whoever listens on the channel $1 each of the texts $2. Nothing is stored.
SELECT count(pg_notify($1::text, message)) FROM unnest($2::text[]) AS message;
