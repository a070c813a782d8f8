-- The history of circuits by tenant, so that a page of one tenant's costs the same however much others have; and append-only:
-- what is written stays as it is until it was kept long enough.

ALTER TABLE circuit_changes ADD COLUMN tenant TEXT NOT NULL DEFAULT '';

-- A key begins with its owner: the tenant, and after a slash what else it is for. See objects/circuit_owner.rs.
UPDATE circuit_changes SET tenant = substr(key, 1, instr(key || ' ', ' ') - 1);
UPDATE circuit_changes SET tenant = substr(tenant, 1, instr(tenant || '/', '/') - 1);

CREATE INDEX changes_of_tenant ON circuit_changes (tenant, at);

CREATE TRIGGER changes_stay BEFORE UPDATE ON circuit_changes BEGIN
    SELECT RAISE(ABORT, 'the history of circuits is append-only');
END;
