-- name: forget_counted_jobs
-- Takes the transaction from up to :limit jobs that ended in the future: they come from a dump of a server with larger
-- ids, and are counted. Later transactions here will have the same ids. A job that ended during this roll-up is not of
-- the future, although its transaction is younger. Returns the jobs.
UPDATE jobs j
SET ended_xid = NULL
FROM (
  SELECT id, ended_xid
  FROM jobs
  WHERE generation > 0 AND ended_xid >= pg_snapshot_xmax(pg_current_snapshot())
  ORDER BY ended_xid DESC
  LIMIT :limit
  FOR UPDATE SKIP LOCKED
) future
WHERE j.id = future.id AND j.generation > 0 AND j.ended_xid IS NOT DISTINCT FROM future.ended_xid
RETURNING j.id;
