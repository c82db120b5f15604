-- name: fill_queued
-- Jobs number $1 to $2 of a tenant ($3) that wait: every other one for its time, which is tomorrow, of the model `echo`; the
-- others may be claimed, of the model `mirror`, but nobody will be rung for them before tomorrow.
WITH new AS MATERIALIZED (
  SELECT
    (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000803' || lpad(to_hex(number), 13, '0'))::uuid
      AS job_id,
    number % 2 = 0 AS scheduled,
    '00-' || md5(number::text) || '-b7ad6b7169203331-01' AS traceparent
  FROM generate_series($1::bigint, $2::bigint) number
), jobs AS (
  INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, run_at, ring_at, timeout, initial_delay,
                    max_delay, traceparent)
  SELECT job_id, $3::uuid, CASE WHEN scheduled THEN 'echo' ELSE 'mirror' END, 'normal', 'queued', 3,
         CASE WHEN scheduled THEN now() + interval '1 day' ELSE now() END, now() + interval '1 day', 600, 1, 300,
         traceparent
  FROM new
)
INSERT INTO job_inputs (job_id, tensors) SELECT job_id, '\x00000000' FROM new;
