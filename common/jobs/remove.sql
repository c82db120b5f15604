-- name: remove_old_jobs
-- Examines the next :limit jobs that ended more than :age seconds ago, in the order of their ends, after a given one
-- (:finished_at, :id). Removes them with everything that belongs to them. It keeps jobs that are locked, jobs with a
-- pending delivery, and jobs whose usage is not counted. Returns the last job examined, and how many were examined and
-- removed.
WITH old AS MATERIALIZED (
  SELECT id, finished_at
  FROM jobs
  WHERE finished_at < now() - make_interval(secs => :age::double precision)
    AND (finished_at, id) > (:finished_at::timestamptz, :id::uuid)
  ORDER BY finished_at, id
  LIMIT :limit
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

-- name: remove_jobs
-- Removes jobs that ended at the given times, with everything that belongs to them. It keeps jobs that are locked, jobs
-- with a pending delivery, jobs of a batch that is not completed, and jobs whose usage is not counted. Returns the
-- batches of removed jobs.
WITH free AS MATERIALIZED (
  SELECT j.id
  FROM unnest(:old.id::uuid[], :old.finished_at::timestamptz[]) AS old(id, finished_at)
  JOIN jobs j ON j.id = old.id AND j.finished_at IS NOT DISTINCT FROM old.finished_at -- not retried in the meantime
  WHERE (
      SELECT bool_or(d.status = 'pending') FROM events e JOIN deliveries d ON d.event_id = e.id WHERE e.job_id = j.id
    ) IS NOT TRUE
    AND (SELECT b.finished_at IS NULL FROM batches b WHERE b.id = j.batch_id) IS NOT TRUE
    AND (j.ended_xid < (SELECT counted_before FROM usage_progress)) IS NOT FALSE
  ORDER BY j.id
  FOR UPDATE OF j SKIP LOCKED
), files_gone AS (
  UPDATE files SET expires_at = now(), job_id = NULL FROM free WHERE job_id = free.id
)
DELETE FROM jobs USING free WHERE jobs.id = free.id RETURNING jobs.batch_id;
