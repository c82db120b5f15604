-- name: remove_old_jobs
-- Examines the next $2 jobs that ended more than $1 seconds ago, in the order of their ends, after a given one ($3,
-- $4). Removes them with everything that belongs to them. It keeps jobs that are locked, jobs with a pending
-- delivery, and jobs whose usage is not counted. Returns the last job examined, and how many were examined and removed.
WITH old AS MATERIALIZED (
  SELECT id, finished_at
  FROM jobs
  WHERE finished_at < now() - make_interval(secs => $1::double precision)
    AND (finished_at, id) > ($3::timestamptz, $4::uuid)
  ORDER BY finished_at, id
  LIMIT $2
), free AS MATERIALIZED (
  SELECT j.id
  FROM old
  JOIN jobs j ON j.id = old.id AND j.finished_at IS NOT DISTINCT FROM old.finished_at -- not retried in the meantime
  WHERE (
    SELECT bool_or(d.status = 'pending') FROM events e JOIN deliveries d ON d.event_id = e.id WHERE e.job_id = j.id
  ) IS NOT TRUE
    AND (j.ended_xid < (SELECT counted_before FROM usage_progress)) IS NOT FALSE
  FOR UPDATE OF j SKIP LOCKED
), files_gone AS (
  UPDATE files SET expires_at = now(), job_id = NULL FROM free WHERE job_id = free.id
), gone AS (
  DELETE FROM jobs USING free WHERE jobs.id = free.id RETURNING jobs.id
)
SELECT finished_at, id, (SELECT count(*) FROM old) AS examined, (SELECT count(*) FROM gone) AS removed
FROM old
ORDER BY finished_at DESC, id DESC
LIMIT 1;

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
