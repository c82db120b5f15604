-- name: delete_old_recoveries
-- Delete up to $2 completed recoveries older than $1 seconds. Skip those that are deleted with their
-- subscription.
DELETE FROM recoveries
WHERE id IN (
  SELECT id
  FROM recoveries
  WHERE next_at IS NULL AND created_at < now() - make_interval(secs => $1::double precision)
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)
RETURNING id;

-- name: delete_expired_secrets
-- Delete old secrets that no longer sign. Skip those that are deleted with their subscription.
DELETE FROM old_secrets
WHERE id IN (SELECT id FROM old_secrets WHERE until < now() FOR UPDATE SKIP LOCKED)
RETURNING id;

-- name: lock_unused_endpoints
-- Lock up to $1 endpoints of callbacks and of deleted subscriptions that have no delivery left, until the transaction
-- ends.
SELECT e.id
FROM endpoints e
WHERE e.webhook_id IS NULL
  AND e.next_at IS NULL
  AND (SELECT d.id FROM deliveries d WHERE d.endpoint_id = e.id LIMIT 1) IS NULL
LIMIT $1
FOR UPDATE SKIP LOCKED;

-- name: delete_unused_endpoints
-- Delete those of the locked endpoints ($1) that still have no delivery. A job may have ended between
-- the look at an endpoint and its lock.
DELETE FROM endpoints
WHERE id = ANY($1::uuid[]) AND (SELECT d.id FROM deliveries d WHERE d.endpoint_id = endpoints.id LIMIT 1) IS NULL
RETURNING id;
