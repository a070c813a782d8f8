WITH new AS (
    INSERT INTO reminders (id, tenant, reference, settings, size, state, asked, turn, runs, numbered, skipped, look_at, revision,
        created_at, changed_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, 1, 0, 0, 0, $8, $9, $10, $10)
)
INSERT INTO reminder_payloads (reminder, payload) VALUES ($1, $11)
