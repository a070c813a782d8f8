-- The version of the directory: it grows with each change of a tenant, an endpoint or an API key.
SELECT number FROM directory_version
