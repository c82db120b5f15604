-- name: fill_queued
-- Jobs number $1 to $2 of a tenant ($3) that wait: every other one for its time, which is tomorrow, of the model `echo`; the
-- others may be claimed, of the model `mirror`, but nothing wakes them up before tomorrow.
WITH new AS MATERIALIZED (
  SELECT
    (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000803' || lpad(to_hex(number), 13, '0'))::uuid
      AS job_id,
    number % 2 = 0 AS scheduled
  FROM generate_series($1::bigint, $2::bigint) number
), jobs AS (
  INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, run_at, next_wake_up_at, timeout, initial_delay,
                    max_delay, traceparent)
  SELECT job_id, $3::uuid, CASE WHEN scheduled THEN 'echo' ELSE 'mirror' END, 'normal', 'queued', 3,
         CASE WHEN scheduled THEN now() + interval '1 day' ELSE now() END, now() + interval '1 day', 600, 1, 300, ''
  FROM new
)
INSERT INTO job_inputs (job_id, tensors) SELECT job_id, '\x00000000' FROM new;

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

-- name: count_queued
-- Jobs of all tenants that are queued.
SELECT count(*) FROM jobs WHERE status = 'queued';
