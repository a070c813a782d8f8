DELETE FROM endpoints WHERE id = $1
