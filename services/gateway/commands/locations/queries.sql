-- name: allow_location
-- Lets a tenant ($1) read ($4) and write ($5) the objects of a bucket ($2) below a prefix ($3). Returns true if that is a
-- change.
INSERT INTO allowed_locations AS a (tenant_id, bucket, prefix, can_read, can_write) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, bucket, prefix) DO UPDATE SET can_read = excluded.can_read, can_write = excluded.can_write
WHERE (a.can_read, a.can_write) <> (excluded.can_read, excluded.can_write)
RETURNING true AS changed;

-- name: revoke_location
-- Takes a bucket ($2) below a prefix ($3) from a tenant ($1). Returns true if it was allowed.
DELETE FROM allowed_locations WHERE tenant_id = $1 AND bucket = $2 AND prefix = $3 RETURNING true AS changed;

-- name: list_locations
-- Lists what tenants, or only one ($1), may use.
SELECT t.name AS tenant, a.bucket, a.prefix, a.can_read, a.can_write
FROM allowed_locations a
JOIN tenants t ON t.id = a.tenant_id
WHERE $1::uuid IS NULL OR a.tenant_id = $1
ORDER BY t.name, a.bucket, a.prefix;
