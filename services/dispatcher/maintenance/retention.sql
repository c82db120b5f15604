-- name: remove_keys
-- Removes up to $1 idempotency keys that are older than a day. A key that is used again meanwhile is younger by then.
DELETE FROM idempotency_keys
WHERE (tenant_id, key) IN (
  SELECT tenant_id, key FROM idempotency_keys WHERE created_at < now() - interval '1 day' ORDER BY created_at LIMIT $1
)
  AND created_at < now() - interval '1 day'
RETURNING key;

-- name: remove_audit_log
-- Removes up to $2 entries of the audit log that are older than $1 seconds.
DELETE FROM audit_log
WHERE id IN (
  SELECT id FROM audit_log WHERE at < now() - make_interval(secs => $1::double precision) ORDER BY at, id LIMIT $2
)
RETURNING id;

-- name: remove_batches
-- Removes up to $2 batches that ended more than $1 seconds ago and have no jobs left, and their items. Stops after the batch
-- with which the items reach $3, so that the statement stays short.
WITH old AS (
  SELECT b.id, b.total
  FROM batches b
  WHERE b.finished_at < now() - make_interval(secs => $1::double precision)
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id)
  ORDER BY b.finished_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
), counted AS (
  SELECT id, sum(total) OVER (ORDER BY id) - total AS items_before FROM old
)
DELETE FROM batches WHERE id IN (SELECT id FROM counted WHERE items_before < $3::bigint)
RETURNING id;
