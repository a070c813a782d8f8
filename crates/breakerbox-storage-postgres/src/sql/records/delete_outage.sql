DELETE FROM outages WHERE subject = $1
