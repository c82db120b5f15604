-- name: find_open_batches
-- Finds the next $2 open batches after an id ($1), each with whether all its jobs have ended, and no lines are left.
SELECT
  b.id,
  b.read_to IS NULL AND NOT EXISTS (
    SELECT FROM jobs j WHERE j.batch_id = b.id AND j.generation <= 0
  ) AS done
FROM batches b
WHERE b.finished_at IS NULL AND b.id > $1
ORDER BY b.id
LIMIT $2;

-- name: lock_batches
-- Locks the given batches ($1) that are still open and not locked, each with the end of its last job. The GROUP BY
-- keeps the planner from searching all ended jobs, newest first, for the batch's jobs.
SELECT
  b.id, b.tenant_id, b.total, b.accepted, b.created_at, b.canceled_at, b.traceparent, now() AS now,
  coalesce((SELECT max(j.finished_at) FROM jobs j WHERE j.batch_id = b.id GROUP BY j.batch_id), now()) AS finished_at
FROM batches b
WHERE b.id = ANY($1::uuid[]) AND b.finished_at IS NULL AND b.read_to IS NULL
ORDER BY b.id
FOR UPDATE OF b SKIP LOCKED;

-- name: complete_batches
-- Completes locked batches, each with its event.
WITH done AS (
  SELECT *
  FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::text[], $5::bytea[], $6::text[])
    AS t(id, finished_at, event_id, type, body, traceparent)
), ended AS (
  UPDATE batches b
  SET finished_at = done.finished_at
  FROM done
  WHERE b.id = done.id AND b.finished_at IS NULL
  RETURNING b.id, b.tenant_id
)
INSERT INTO events (id, tenant_id, type, body, traceparent)
SELECT event_id, tenant_id, type, body, traceparent FROM done JOIN ended USING (id);
