-- name: promote_jobs
-- Makes up to $1 scheduled jobs claimable whose time has come, the most overdue first. Returns their queues.
--
-- A job that was interrupted 3 times (MAX_INTERRUPTIONS) is suspected poison: it may crash Triton. Only one such job is
-- claimable or running, so that the next crash does not count against the others. A concurrent promotion of another fails.
WITH due AS (
  SELECT id
  FROM jobs
  WHERE scheduled_at <= now() AND interruptions < 3
  ORDER BY scheduled_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
), suspect AS (
  SELECT id
  FROM jobs
  WHERE scheduled_at <= now() AND interruptions >= 3
    AND NOT EXISTS (
      SELECT FROM jobs other WHERE other.finished_at IS NULL AND other.scheduled_at IS NULL AND other.interruptions >= 3
    )
  ORDER BY scheduled_at
  LIMIT 1
  FOR UPDATE SKIP LOCKED
)
UPDATE jobs
SET scheduled_at = NULL
WHERE id IN (SELECT id FROM due UNION ALL SELECT id FROM suspect)
RETURNING model, priority, traceparent;

-- name: find_abandoned
-- Finds running jobs whose lease has lapsed. Their dispatcher died or lost its connection.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.lease_until < now()
ORDER BY j.lease_until
LIMIT $1;

-- name: find_orphaned
-- Finds running jobs of the given sessions ($1), whose dispatchers died.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.lease_until > '-infinity' AND j.session = ANY($1::bigint[])
ORDER BY j.lease_until
LIMIT $2;

-- name: forget_models
-- Makes the models of lost sessions ($1) count as not ready.
UPDATE served_models SET session = NULL, updated_at = '-infinity' WHERE session = ANY($1::bigint[]);

-- name: find_expired
-- Finds queued jobs that did not start within their expires_in.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.expires_at <= now() AND j.started_at IS NULL AND j.finished_at IS NULL
ORDER BY j.expires_at
LIMIT $1;
