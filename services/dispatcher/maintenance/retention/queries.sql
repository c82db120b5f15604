-- name: remove_keys
-- Removes up to $1 idempotency keys that are older than a day. A key that is used again meanwhile is younger by then.
DELETE FROM idempotency_keys
WHERE (tenant_id, key) IN (
  SELECT tenant_id, key FROM idempotency_keys WHERE created_at < now() - interval '1 day' ORDER BY created_at LIMIT $1
)
  AND created_at < now() - interval '1 day'
RETURNING key;

-- name: remove_expired_api_keys
-- Removes up to $1 API keys that expired more than a day ago, with their buckets of permits. Keys that one of them made
-- expired no later.
DELETE FROM api_keys
WHERE id IN (
  SELECT id FROM api_keys WHERE expires_at < now() - interval '1 day' ORDER BY expires_at LIMIT $1
)
RETURNING id;

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
    AND (SELECT j.id FROM jobs j WHERE j.batch_id = b.id LIMIT 1) IS NULL
  ORDER BY b.finished_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
), counted AS (
  SELECT id, sum(total) OVER (ORDER BY id) - total AS items_before FROM old
)
DELETE FROM batches WHERE id IN (SELECT id FROM counted WHERE items_before < $3::bigint)
RETURNING id;

-- name: find_tenants_with_retention
-- Finds the tenants whose ended jobs are kept for a time of their own.
SELECT id, retention FROM tenants WHERE retention IS NOT NULL ORDER BY id;

-- name: find_ended_jobs
-- Finds the next $5 jobs of a tenant ($1) that ended more than $2 seconds ago, after a given one ($3, $4).
SELECT finished_at AS at, id, finished_at
FROM jobs
WHERE generation > 0
  AND finished_at > '-infinity' -- fits the index
  AND tenant_id = $1
  AND finished_at < now() - make_interval(secs => $2::double precision)
  AND finished_at >= $3::timestamptz AND (finished_at, id) > ($3, $4::uuid)
ORDER BY finished_at, id
LIMIT $5;

-- name: find_retained_jobs
-- Finds the next $3 ended jobs with a retention of their own that is over, after a given one ($1, $2).
SELECT timezone('UTC', kept_until(finished_at, retain)) AS at, id, finished_at
FROM jobs
WHERE generation > 0
  AND retain IS NOT NULL
  AND kept_until(finished_at, retain) < timezone('UTC', now())
  AND (kept_until(finished_at, retain), id) > (timezone('UTC', $1::timestamptz), $2::uuid)
ORDER BY kept_until(finished_at, retain), id
LIMIT $3;

-- name: remove_empty_batches
-- Removes those of the completed batches ($1) that have no jobs left, and their items. Stops after the batch with which the
-- items reach $2, so that the statement stays short. Returns the removed batches.
WITH empty AS (
  SELECT b.id, b.total
  FROM batches b
  WHERE b.id = ANY($1::uuid[]) AND b.finished_at IS NOT NULL
    AND (SELECT j.id FROM jobs j WHERE j.batch_id = b.id LIMIT 1) IS NULL
  FOR UPDATE SKIP LOCKED
), counted AS (
  SELECT id, sum(total) OVER (ORDER BY id) - total AS items_before FROM empty
)
DELETE FROM batches WHERE id IN (SELECT id FROM counted WHERE items_before < $2::bigint)
RETURNING id;
