-- The history of circuits by the tenant's number instead of its name: another tenant may use a name again.

DROP TRIGGER changes_stay;
DROP INDEX changes_of_tenant;
ALTER TABLE circuit_changes ADD COLUMN owner INTEGER;   -- tenants.row; NULL: a tenant that was deleted

UPDATE circuit_changes SET owner = (
    SELECT row FROM tenants WHERE id = circuit_changes.tenant AND deleted_at IS NULL AND created_at <= circuit_changes.at
);
ALTER TABLE circuit_changes DROP COLUMN tenant;
CREATE INDEX changes_of_owner ON circuit_changes (owner, at);

CREATE TRIGGER changes_stay BEFORE UPDATE ON circuit_changes BEGIN
    SELECT RAISE(ABORT, 'the history of circuits is append-only');
END;
