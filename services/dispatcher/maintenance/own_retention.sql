-- name: find_tenants_with_retention
-- Finds the tenants whose ended jobs are kept for a time of their own.
SELECT id, retention FROM tenants WHERE retention IS NOT NULL ORDER BY id;

-- name: find_ended_jobs
-- Finds the next $6 jobs of a tenant ($1) with a terminal status ($3) that were created more than $2 seconds ago, after a
-- given one ($4, $5). `due` says that they also ended that long ago.
SELECT created_at AS place, id, finished_at, finished_at < now() - make_interval(secs => $2::double precision) AS due
FROM jobs
WHERE tenant_id = $1
  AND status = $3
  AND status IN ('succeeded', 'failed', 'canceled', 'expired')
  AND created_at < now() - make_interval(secs => $2)
  AND (created_at, id) > ($4::timestamptz, $5::uuid)
ORDER BY created_at, id
LIMIT $6;

-- name: find_retained_jobs
-- Finds the next $3 ended jobs with a retention of their own that is over, after a given one ($1, $2).
SELECT timezone('UTC', kept_until(finished_at, retain)) AS place, id, finished_at, true AS due
FROM jobs
WHERE retain IS NOT NULL
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
  WHERE b.id = ANY($1::uuid[]) AND b.finished_at IS NOT NULL AND NOT EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id)
  FOR UPDATE SKIP LOCKED
), counted AS (
  SELECT id, sum(total) OVER (ORDER BY id) - total AS items_before FROM empty
)
DELETE FROM batches WHERE id IN (SELECT id FROM counted WHERE items_before < $2::bigint)
RETURNING id;
