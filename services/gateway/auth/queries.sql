-- name: find_keys
-- The API keys with these hashes ($1) that are not revoked; stale if their last use must be noted again. `expires_in` is in
-- seconds, and not positive for a key that has expired. `maker_limits` are those of `makers`.
SELECT k.key_hash, k.id, k.tenant_id, k.scopes, k.rate_limit, k.models, k.makers,
       ARRAY(
         SELECT maker.rate_limit
         FROM unnest(k.makers) WITH ORDINALITY AS each(id, place)
         JOIN api_keys maker ON maker.id = each.id
         ORDER BY place
       ) AS maker_limits,
       extract(epoch FROM k.expires_at - now())::double precision AS expires_in,
       coalesce(k.last_used_at < now() - interval '1 minute', true) AS stale
FROM api_keys k
WHERE k.key_hash = ANY($1::bytea[]) AND k.revoked_at IS NULL;

-- name: note_uses
-- Notes the use of keys ($1). Skips a key whose use another gateway notes at the same time.
WITH free AS (
  SELECT id FROM api_keys WHERE id = ANY($1::uuid[]) FOR UPDATE SKIP LOCKED
)
UPDATE api_keys SET last_used_at = now() FROM free WHERE api_keys.id = free.id;

-- name: add_key
-- Adds a key and returns its id; does nothing if its hash exists, or a key is revoked that made it ($9). Those are locked: a
-- revocation finds the new key, or comes before it.
WITH makers AS (
  SELECT id FROM api_keys WHERE id = ANY($9::uuid[]) AND revoked_at IS NULL ORDER BY id FOR SHARE
)
INSERT INTO api_keys (id, tenant_id, name, key_hash, scopes, rate_limit, models, expires_at, makers)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9::uuid[]
WHERE (SELECT count(*) FROM makers) = cardinality($9)
ON CONFLICT (key_hash) DO NOTHING
RETURNING id;

-- name: list_keys
-- The keys of one tenant ($1), or of all; without their secrets, which are not stored.
SELECT k.id, t.name AS tenant, k.name, k.scopes, k.models, k.rate_limit, k.created_at, k.expires_at, k.last_used_at,
       k.revoked_at, k.makers[cardinality(k.makers)] AS made_by
FROM api_keys k
JOIN tenants t ON t.id = k.tenant_id
WHERE $1::uuid IS NULL OR k.tenant_id = $1
ORDER BY t.name, k.id;

-- name: list_active_keys
-- A page ($3) of the keys of a tenant ($1) that are not revoked, after an id ($2); without their secrets.
SELECT k.id, t.name AS tenant, k.name, k.scopes, k.models, k.rate_limit, k.created_at, k.expires_at, k.last_used_at,
       k.revoked_at, k.makers[cardinality(k.makers)] AS made_by
FROM api_keys k
JOIN tenants t ON t.id = k.tenant_id
WHERE k.tenant_id = $1 AND k.id > $2 AND k.revoked_at IS NULL
ORDER BY k.id
LIMIT $3;

-- name: find_active_key
-- A key ($1) of a tenant ($2), unless it is revoked; without its secret.
SELECT k.id, t.name AS tenant, k.name, k.scopes, k.models, k.rate_limit, k.created_at, k.expires_at, k.last_used_at,
       k.revoked_at, k.makers[cardinality(k.makers)] AS made_by
FROM api_keys k
JOIN tenants t ON t.id = k.tenant_id
WHERE k.id = $1 AND k.tenant_id = $2 AND k.revoked_at IS NULL;

-- name: count_active_keys
-- How many keys of a tenant ($1) are neither revoked nor expired.
SELECT count(*) FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: revoke_own_key
-- Revokes a key ($1) of a tenant ($2) and those that it made. Returns them: none if it does not exist or is revoked.
SELECT revoke_key_of($2, $1) AS id;

-- name: lock_key
-- Locks a key ($1): keys that it is making right now are committed before, or refused afterwards.
SELECT FROM api_keys WHERE id = $1 FOR UPDATE;

-- name: revoke_key
-- Revokes a key ($1) and those that it made. Returns them, each with its tenant: none if it does not exist or is revoked.
UPDATE api_keys
SET revoked_at = now()
WHERE tenant_id = (SELECT tenant_id FROM api_keys WHERE id = $1) AND (id = $1 OR $1 = ANY(makers)) AND revoked_at IS NULL
RETURNING id, tenant_id;

-- name: has_key
-- Returns whether a key ($1) exists.
SELECT EXISTS (SELECT FROM api_keys WHERE id = $1) AS found;

-- name: add_tenant
-- Adds a tenant and returns its id; does nothing if its name exists.
INSERT INTO tenants (id, name, webhook_secret) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING RETURNING id;

-- name: find_tenant
-- The tenant with this name.
SELECT id FROM tenants WHERE name = $1;

-- name: set_max_queued
-- Sets how many jobs of a tenant ($1) may wait; NULL restores the gateway's default. Returns the id if that is a change.
UPDATE tenants SET max_queued = $2 WHERE id = $1 AND max_queued IS DISTINCT FROM $2 RETURNING id;

-- name: find_max_queued
-- A tenant's own queue limit.
SELECT max_queued FROM tenants WHERE id = $1;

-- name: take_permits
-- Takes the wanted permits ($2), as far as there are any, from the buckets of keys ($1). A bucket holds the permits of
-- one second ($3). Returns the permits taken, and the seconds until the bucket is full; nothing for a key without one.
-- Rows are locked in order of id, so that two gateways never deadlock. Times are rounded to microseconds: a hundredth of
-- a permit makes up for that. A bucket is full after two seconds at most, even if the clock was set back.
WITH requests AS (
  SELECT * FROM unnest($1::uuid[], $2::integer[], $3::integer[]) AS t(key_id, wanted, rate)
), held AS (
  SELECT b.key_id, a.wanted, a.rate, least(greatest(b.full_at, now()), now() + interval '2 seconds') AS full_at
  FROM rate_limits b
  JOIN requests a ON a.key_id = b.key_id
  ORDER BY b.key_id
  FOR UPDATE OF b
), taken AS (
  SELECT *, greatest(0, least(wanted, floor(rate * (1 - extract(epoch FROM full_at - now())) + 0.01)))::integer AS permits
  FROM held
)
UPDATE rate_limits b
SET full_at = t.full_at + make_interval(secs => t.permits / t.rate::double precision)
FROM taken t
WHERE b.key_id = t.key_id
RETURNING b.key_id, t.permits, extract(epoch FROM b.full_at - now())::double precision AS full_in;

-- name: add_buckets
-- Adds a full bucket for each key ($1) without one.
INSERT INTO rate_limits (key_id, full_at) SELECT id, now() FROM unnest($1::uuid[]) id ORDER BY id ON CONFLICT DO NOTHING;
