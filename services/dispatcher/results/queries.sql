-- name: record_starts
-- Records the events of starts, each only while its job runs under the given claim: after the end, it would come too
-- late.
WITH given AS (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::timestamptz[],
              $9::bytea[], $10::text[])
    AS t(id, tenant_id, job_id, claim, model, sequence, type, created_at, body, traceparent)
), running AS ( -- the same lock as the foreign key's, so that an end comes before or after
  SELECT id, claim FROM jobs WHERE id = ANY($3::uuid[]) AND lease_until IS NOT NULL ORDER BY id FOR KEY SHARE
)
INSERT INTO events (id, tenant_id, job_id, model, sequence, type, created_at, body, traceparent)
SELECT given.id, tenant_id, job_id, model, sequence, type, created_at, body, traceparent
FROM given
JOIN running ON running.id = given.job_id AND running.claim = given.claim;

-- name: end_jobs
-- Ends jobs, each with its outputs and its event. A job ends only if its state (was) and its claim still match, and no
-- sweeper took one of its files ($19, with the end's event $20). A job that is being canceled still runs, so whichever
-- end comes first wins; but only such a job can end canceled. Returns the ids of the events that were recorded.
WITH done AS (
  SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::boolean[],
         $9::double precision[], $10::timestamptz[], $11::bytea[], $12::uuid[], $13::bigint[], $14::text[],
         $15::bytea[], $16::text[], $17::integer[], $18::integer[])
    AS t(id, claim, was, status, version, error_code, error_message, error_retryable,
         inference_ms, finished_at, outputs, event_id, sequence, event_type, event_body, traceparent, files,
         interruptions)
  ORDER BY id
), held AS (
  SELECT f.id, f.size, event_id
  FROM unnest($19::uuid[], $20::uuid[]) AS made(id, event_id)
  JOIN done USING (event_id)
  JOIN files f ON f.id = made.id AND (f.status = 'uploading' OR f.job_id = done.id)
  ORDER BY f.id
  FOR UPDATE OF f
), locked AS (
  SELECT done.event_id
  FROM jobs j
  JOIN done ON j.id = done.id AND j.claim = done.claim
    AND done.was = CASE WHEN j.lease_until IS NOT NULL THEN 'running' ELSE j.status END
    AND (done.status <> 'canceled' OR j.status = 'canceling')
  ORDER BY j.id
  FOR UPDATE OF j
), chosen AS ( -- the first end of a job, if its sweeper and its dispatcher end it in one call
  SELECT DISTINCT ON (done.id) done.*
  FROM done JOIN locked USING (event_id)
  WHERE files = (SELECT count(*) FROM held WHERE held.event_id = done.event_id)
  ORDER BY done.id, event_id
), ended AS (
  UPDATE jobs j
  SET status = chosen.status,
      version = coalesce(chosen.version, j.version),
      error_code = chosen.error_code,
      error_message = chosen.error_message,
      error_retryable = chosen.error_retryable,
      inference_ms = chosen.inference_ms,
      finished_at = chosen.finished_at,
      interruptions = coalesce(chosen.interruptions, j.interruptions),
      ended_xid = pg_current_xact_id(),
      lease_until = NULL,
      session = NULL,
      scheduled_at = NULL
  FROM chosen
  WHERE j.id = chosen.id
  RETURNING j.id, j.tenant_id, j.model
), answered AS (
  INSERT INTO job_outputs (job_id, outputs, file_bytes)
  SELECT id, outputs, (SELECT coalesce(sum(size), 0) FROM held WHERE held.event_id = chosen.event_id)
  FROM ended JOIN chosen USING (id)
  WHERE outputs IS NOT NULL
), stored AS (
  UPDATE files f
  SET status = 'ready', created_at = now(), expires_at = 'infinity', job_id = chosen.id
  FROM held JOIN chosen USING (event_id)
  WHERE f.id = held.id AND f.status = 'uploading'
), recorded AS (
  INSERT INTO events (id, tenant_id, job_id, model, sequence, type, created_at, body, claim, traceparent)
  SELECT event_id, tenant_id, ended.id, model, sequence, event_type, finished_at, event_body, claim, traceparent
  FROM ended JOIN chosen USING (id)
)
SELECT event_id FROM ended JOIN chosen USING (id);

-- name: add_files
-- Adds the files ($3) of a tenant ($1) that are about to be written, with their sizes ($4) and SHA-256 ($5). A sweeper
-- deletes them after $2 seconds, unless they belong to a job by then.
INSERT INTO files (id, tenant_id, content_type, size, sha256, kept, expires_at)
SELECT id, $1, 'application/octet-stream', size, sha256, $2, now() + make_interval(secs => $2)
FROM unnest($3::uuid[], $4::bigint[], $5::bytea[]) AS t(id, size, sha256)
ON CONFLICT DO NOTHING;

-- name: drop_files
-- Lets a sweeper delete those of the files ($1) that no job got, after $2 seconds.
UPDATE files
SET status = 'deleting', expires_at = now() + make_interval(secs => $2)
WHERE id IN (SELECT id FROM files WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE) AND status = 'uploading';

-- name: add_steps
-- Adds streamed responses, each only while its job runs under the given claim, and makes their files ($5, with the job,
-- the claim and the number) the job's. A repeated call adds nothing twice.
WITH added AS (
  INSERT INTO job_steps (job_id, claim, number, type, outputs)
  SELECT t.id, t.claim, t.number, 'job.output', t.outputs
  FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[]) AS t(id, claim, number, outputs)
  JOIN jobs j ON j.id = t.id AND j.claim = t.claim
  WHERE j.status IN ('processing', 'canceling')
  ON CONFLICT DO NOTHING
  RETURNING job_id, claim, number
)
UPDATE files f
SET status = 'ready', created_at = now(), expires_at = 'infinity', job_id = made.job_id
FROM unnest($5::uuid[], $6::uuid[], $7::bigint[], $8::integer[]) AS made(id, job_id, claim, number)
JOIN added USING (job_id, claim, number)
WHERE f.id = made.id AND f.status = 'uploading';

-- name: requeue_jobs
-- Queues jobs again, due after a delay (seconds), each only under the given claim. A sweeper makes them claimable. An
-- attempt that was refused like the one before it is counted in that one's row.
-- Returns the ids of the jobs that were queued.
WITH back AS (
  SELECT *
  FROM unnest($1::uuid[], $2::bigint[], $3::double precision[], $4::boolean[], $5::text[],
              $6::text[], $7::text[], $8::boolean[], $9::boolean[], $10::integer[], $11::double precision[])
    AS t(id, claim, delay, given_back, fallback, error_code, error_message, error_retryable, refused, interruptions,
         probation)
  ORDER BY id
), locked AS (
  SELECT back.*, j.attempt, j.model, j.worker, j.run_at, j.started_at
  FROM jobs j
  JOIN back ON j.id = back.id AND j.claim = back.claim AND j.status = 'processing'
  ORDER BY j.id
  FOR UPDATE OF j
), chosen AS ( -- one requeue of a job, if its sweeper and its dispatcher requeue it in one call
  SELECT DISTINCT ON (id) * FROM locked ORDER BY id
), repeated AS (
  UPDATE job_attempts a
  SET claim = chosen.claim,
      count = a.count + 1,
      worker = chosen.worker,
      finished_at = now(),
      error_message = chosen.error_message
  FROM chosen
  WHERE a.job_id = chosen.id AND a.claim = chosen.claim - 1 AND a.attempt = chosen.attempt AND a.model = chosen.model
    AND a.status = 'returned' AND a.error_code = chosen.error_code AND chosen.refused
  RETURNING a.job_id
), attempted AS (
  INSERT INTO job_attempts (job_id, claim, attempt, model, worker, due_at, started_at, finished_at, status, error_code,
                            error_message)
  SELECT id, claim, attempt, model, worker, run_at, started_at, now(),
         CASE WHEN given_back THEN 'returned' ELSE 'failed' END, error_code, error_message
  FROM chosen
  WHERE id NOT IN (SELECT job_id FROM repeated)
)
UPDATE jobs j
SET status = 'queued',
    run_at = now() + make_interval(secs => back.delay),
    scheduled_at = now() + make_interval(secs => back.delay),
    attempt = j.attempt - back.given_back::integer,
    interruptions = coalesce(back.interruptions, j.interruptions),
    probation = CASE WHEN back.interruptions IS NULL THEN j.probation ELSE back.probation END,
    started_at = CASE WHEN NOT back.refused OR j.attempt > 1 THEN j.started_at END, -- NULL: it may still expire
    model = coalesce(back.fallback, j.model),
    version = CASE WHEN back.fallback IS NULL THEN j.version END,
    fallback_model = CASE WHEN back.fallback IS NULL THEN j.fallback_model END,
    max_attempts = CASE WHEN back.fallback IS NULL THEN j.max_attempts ELSE j.attempt + 1 END,
    error_code = back.error_code,
    error_message = back.error_message,
    error_retryable = back.error_retryable,
    lease_until = NULL,
    worker = NULL,
    session = NULL
FROM chosen back
WHERE j.id = back.id
RETURNING j.id;
