-- name: requeue_jobs
-- Queues jobs again, due after a delay (seconds), each only under the given claim. A sweeper makes them claimable. An
-- attempt that was refused like the one before it is counted in that one's row. Returns the ids of the jobs that were
-- queued.
WITH back AS (
  SELECT *
  FROM unnest(
    :requeues.id::uuid[], :requeues.claim::bigint[], :requeues.delay::double precision[],
    :requeues.given_back::boolean[], :requeues.fallback::text[],
    :requeues.failure.code::text[], :requeues.failure.message::text[], :requeues.failure.retryable::boolean[],
    :requeues.refused::boolean[], :requeues.interruptions::integer[], :requeues.probation::double precision[]
  ) AS t(
    id, claim, delay,
    given_back, fallback,
    error_code, error_message, error_retryable,
    refused, interruptions, probation
  )
  ORDER BY id
), locked AS (
  SELECT back.*, j.attempt, j.model, j.worker, j.run_at, j.started_at
  FROM live_jobs j
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
UPDATE live_jobs j
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
