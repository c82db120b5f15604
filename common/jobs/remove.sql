-- name: remove_jobs
-- Removes jobs that ended at the given times, with everything that belongs to them. It keeps jobs that are locked, jobs
-- with a pending delivery, jobs of a batch that is not completed, and jobs whose usage is not counted. Returns the
-- batches of removed jobs.
WITH free AS MATERIALIZED (
  SELECT j.id
  FROM unnest(:old.id::uuid[], :old.finished_at::timestamptz[]) AS old(id, finished_at)
  JOIN jobs j ON j.id = old.id AND j.generation > 0 AND j.finished_at = old.finished_at -- not retried in the meantime
  WHERE NOT EXISTS (SELECT FROM events e JOIN live_deliveries d ON d.event_id = e.id WHERE e.job_id = j.id)
    AND (SELECT b.finished_at IS NULL FROM batches b WHERE b.id = j.batch_id) IS NOT TRUE
    AND (j.ended_xid < (SELECT counted_before FROM usage_progress)) IS NOT FALSE
    AND NOT EXISTS (SELECT FROM live_runs r WHERE r.id = j.parent) -- other steps may still read its outputs
  ORDER BY j.id
  FOR UPDATE OF j SKIP LOCKED
), files_gone AS (
  UPDATE files SET expires_at = now(), job_id = NULL FROM free WHERE job_id = free.id
), attempts_gone AS (
  DELETE FROM job_attempts USING free WHERE job_id = free.id
), steps_gone AS (
  DELETE FROM job_steps USING free WHERE job_id = free.id
), events_gone AS (
  DELETE FROM events USING free WHERE job_id = free.id RETURNING events.id
), deliveries_gone AS (
  DELETE FROM deliveries USING events_gone WHERE event_id = events_gone.id RETURNING deliveries.id
), delivery_attempts_gone AS (
  DELETE FROM attempts USING deliveries_gone WHERE delivery_id = deliveries_gone.id
)
DELETE FROM jobs USING free WHERE jobs.id = free.id AND generation > 0 RETURNING jobs.batch_id;
