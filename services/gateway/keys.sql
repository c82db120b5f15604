-- name: list_keys
-- Every key, of a tenant ($1) where one is given; not the keys themselves, which nobody has.
SELECT k.id, t.name AS tenant, k.name, k.scopes, k.rate_limit, k.created_at, k.last_used_at, k.revoked_at
FROM api_keys k
JOIN tenants t ON t.id = k.tenant_id
WHERE $1::uuid IS NULL OR k.tenant_id = $1
ORDER BY t.name, k.id;

-- name: revoke_key
-- Returns the key, where there is one; again changes nothing.
UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1 RETURNING id;

-- name: set_max_queued
-- How many jobs of a tenant ($1) may wait; NULL for the gateway's setting.
UPDATE tenants SET max_queued = $2 WHERE id = $1;

-- name: find_max_queued
SELECT max_queued FROM tenants WHERE id = $1;
