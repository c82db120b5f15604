-- name: lock_job
-- Locks and returns a :tenant's :job, with the database's time.
SELECT j.*, now() AS now
FROM job_facts j
WHERE j.id = :job AND j.tenant_id = :tenant
FOR UPDATE OF j;

-- name: cancel_queued
-- Cancels a locked :job that waits, and adds its event.
WITH ended AS (
  UPDATE jobs
  SET status = 'canceled', finished_at = :at, generation = current_generation(), ended_xid = pg_current_xact_id(),
      scheduled_at = NULL
  WHERE id = :job AND generation = 0
  RETURNING id, tenant_id, model, claim, callback_url, callback_events
)
INSERT INTO events (id, tenant_id, job_id, model, type, created_at, body, traceparent, sequence, claim, callback_url)
SELECT :event_id, tenant_id, id, model, :event_type, :at, :body, :traceparent, :sequence, claim,
       CASE WHEN callback_events && event_patterns(:event_type) THEN callback_url END
FROM ended;

-- name: cancel_running
-- Marks a locked, running :job as canceling. The request follows the responses so far: they have even numbers. The lock
-- keeps later ones out, and earlier ones are committed.
WITH marked AS (
  UPDATE live_jobs SET status = 'canceling' WHERE id = :job RETURNING id, claim
)
INSERT INTO job_steps (job_id, claim, number, type)
SELECT id, claim, 1 + coalesce((SELECT max(number) FROM job_steps s WHERE s.job_id = id AND s.claim = marked.claim), 0),
  'job.canceling'
FROM marked;
