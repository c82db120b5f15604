-- name: lock_job
-- Locks and returns a tenant's ($2) job ($1), with the database's time.
SELECT j.*, i.metadata, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.id = $1 AND j.tenant_id = $2
FOR UPDATE OF j;

-- name: cancel_queued
-- Cancels a locked job ($1) that waits, at a time ($2), and adds its event.
WITH ended AS (
  UPDATE jobs
  SET status = 'canceled', finished_at = $2, ended_xid = pg_current_xact_id(), scheduled_at = NULL
  WHERE id = $1
  RETURNING id, tenant_id, model, claim
)
INSERT INTO events (id, tenant_id, job_id, model, type, created_at, body, traceparent, sequence, claim)
SELECT $3, tenant_id, id, model, $4, $2, $5, $6, $7, claim FROM ended;

-- name: cancel_running
-- Marks a locked, running job ($1) as canceling. The request follows the responses so far: they have even numbers. The
-- lock keeps later ones out, because of their foreign key, and earlier ones are committed.
WITH marked AS (
  UPDATE jobs SET status = 'canceling' WHERE id = $1 RETURNING id, claim
)
INSERT INTO job_steps (job_id, claim, number, type)
SELECT id, claim, 1 + coalesce((SELECT max(number) FROM job_steps s WHERE s.job_id = id AND s.claim = marked.claim), 0),
  'job.canceling'
FROM marked;

-- name: find_retryable_jobs
-- Returns those of a tenant's ($1) jobs ($2) that have one of these statuses ($3) and are not erased, each with the bytes of
-- its inputs. No input is read for it.
SELECT j.id, octet_length(i.tensors) AS size
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.tenant_id = $1 AND j.id = ANY($2::uuid[]) AND j.status = ANY($3::text[]) AND j.erased_at IS NULL;

-- name: read_packed_inputs
-- Returns the inputs of a tenant's ($1) jobs ($2).
SELECT i.job_id, i.tensors
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.tenant_id = $1 AND j.id = ANY($2::uuid[]) AND j.erased_at IS NULL;

-- name: list_job_models
-- Returns the models of a tenant's ($1) jobs ($2), with their fallback models.
SELECT DISTINCT model, fallback_model
FROM jobs
WHERE tenant_id = $1 AND id = ANY($2::uuid[])
ORDER BY model, fallback_model;

-- name: retry_jobs
-- Queues those of a tenant's ($1) jobs ($2) again that have one of these statuses ($3), on another model ($4) if given.
-- The raised claim rejects late writes: results of earlier attempts, and an end meant for the job before the retry.
WITH ended AS (
  SELECT *
  FROM jobs
  WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND status = ANY($3::text[]) AND erased_at IS NULL
  ORDER BY id
  FOR UPDATE
), last_attempts AS (
  INSERT INTO job_attempts (job_id, claim, attempt, model, worker, due_at, started_at, finished_at, status, error_code,
                            error_message)
  SELECT id, claim, attempt, model, worker, run_at, started_at, greatest(started_at, finished_at), status, error_code,
         error_message
  FROM ended
  WHERE worker IS NOT NULL
), retried AS (
  UPDATE jobs j
  SET status = 'queued',
      model = coalesce($4, j.model),
      version = CASE WHEN $4::text IS NULL THEN j.version END,
      attempt = 0,
      claim = j.claim + 1,
      interruptions = 0,
      probation = NULL,
      run_at = now(),
      worker = NULL,
      started_at = NULL,
      finished_at = NULL,
      ended_xid = NULL,
      expires_at = NULL,
      error_code = NULL,
      error_message = NULL,
      error_retryable = NULL,
      inference_ms = NULL
  FROM ended
  WHERE j.id = ended.id
  RETURNING j.id, j.model, j.priority, j.traceparent, j.claim
), step AS (
  INSERT INTO job_steps (job_id, claim, number, type) SELECT id, claim, 0, 'job.queued' FROM retried
)
SELECT id, model, priority, traceparent FROM retried;

-- name: lock_job_events
-- Locks all events of a job ($1), and the events about its deliveries.
SELECT id
FROM events
WHERE id IN (SELECT id FROM events WHERE job_id = $1 UNION ALL SELECT id FROM events WHERE about_job_id = $1)
ORDER BY id
FOR UPDATE;

-- name: lock_event_endpoints
-- Locks the endpoints of locked events ($1), before their deliveries.
SELECT id
FROM endpoints
WHERE id IN (SELECT endpoint_id FROM deliveries WHERE event_id = ANY($1::uuid[]))
ORDER BY id
FOR NO KEY UPDATE;

-- name: lock_event_deliveries
-- Locks the deliveries of locked events ($1). Until the transaction ends, none is claimed or recorded.
SELECT id FROM deliveries WHERE event_id = ANY($1::uuid[]) ORDER BY id FOR UPDATE;

-- name: is_delivering
-- Returns whether one of a job's ($1) locked events ($2) is being sent now, or the job has new events that are not locked.
SELECT
  (SELECT bool_or(lease_until > now()) FROM deliveries WHERE event_id = ANY($2::uuid[])) IS TRUE
  OR (SELECT count(*) FROM events WHERE job_id = $1) + (SELECT count(*) FROM events WHERE about_job_id = $1)
    > cardinality($2::uuid[]) AS is_delivering;

-- name: erase_job
-- Erases the payload of a locked job ($1), and deletes its locked events ($2) with their deliveries. The job keeps its
-- status, its times and the size of its input, which counts as usage.
WITH deleted_events AS (
  DELETE FROM events WHERE id = ANY($2::uuid[])
), deleted_outputs AS (
  DELETE FROM job_outputs WHERE job_id = $1
), deleted_steps AS (
  DELETE FROM job_steps WHERE job_id = $1
), read_files AS (
  DELETE FROM job_files WHERE job_id = $1
), own_files AS ( -- also those that another job reads: nobody may, from now on
  UPDATE files SET status = 'deleting', expires_at = now(), job_id = NULL WHERE job_id = $1
), erased_inputs AS (
  UPDATE job_inputs
  SET tensors = '', parameters = NULL, metadata = NULL, callback_url = NULL, callback_events = NULL,
      output_location = NULL
  WHERE job_id = $1
), erased_attempts AS (
  UPDATE job_attempts SET error_message = NULL WHERE job_id = $1 AND error_message IS NOT NULL
)
UPDATE jobs SET erased_at = now(), error_message = NULL WHERE id = $1;
