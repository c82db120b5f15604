-- name: count_faults
-- What should be none of, where nothing failed: jobs that have not succeeded, further attempts at jobs, further events that
-- end a job, and deliveries that were not the first attempt's; in this order.
SELECT
  (SELECT count(*) FROM jobs WHERE status <> 'succeeded'),
  (SELECT count(*) - count(DISTINCT job_id) FROM job_attempts),
  (SELECT count(*) - count(DISTINCT job_id) FROM events WHERE job_id IS NOT NULL AND type <> 'job.started'),
  (SELECT count(*) FROM deliveries WHERE status <> 'succeeded' OR attempt <> 1);

-- name: count_succeeded
-- Jobs of the model `slow`, on whichever version, that succeeded.
SELECT count(*) FROM jobs WHERE model = 'slow' AND status = 'succeeded';
