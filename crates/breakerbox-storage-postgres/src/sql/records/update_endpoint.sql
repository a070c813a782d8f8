UPDATE endpoints SET settings = $2, sealed = $3, disabled = $4, revision = $5, changed_at = $6 WHERE id = $1
