-- Deleted tenants, the longest ago first: they are forgotten when nothing names them any more.
CREATE INDEX deleted_tenants ON tenants (deleted_at) WHERE deleted_at IS NOT NULL;
