-- name: find_open
-- What has not ended: jobs, deliveries and batches, and ends of jobs that usage does not count yet.
SELECT 'job ' || id AS what FROM jobs WHERE finished_at IS NULL
UNION ALL
SELECT 'delivery ' || id FROM deliveries WHERE status = 'pending'
UNION ALL
SELECT 'batch ' || id FROM batches WHERE finished_at IS NULL
UNION ALL
SELECT 'usage of job ' || id FROM jobs WHERE ended_xid >= (SELECT counted_before FROM usage_progress);

-- name: find_broken
-- What must not be: each row says what is wrong, and of what.
SELECT 'two jobs of one key' AS rule, min(id::text) AS subject
FROM jobs
WHERE metadata IS NOT NULL
GROUP BY convert_from(metadata, 'UTF8')::jsonb ->> 'key'
HAVING count(*) > 1 AND min(convert_from(metadata, 'UTF8')::jsonb ->> 'key') IS NOT NULL
UNION ALL
SELECT 'two ends of one claim', job_id::text
FROM events
WHERE type IN ('job.succeeded', 'job.failed', 'job.canceled', 'job.expired')
GROUP BY job_id, claim
HAVING count(*) > 1
UNION ALL
SELECT 'an end without its event', j.id::text
FROM jobs j
WHERE j.erased_at IS NULL AND j.parent IS NULL -- the run of a step has an entry for it
  AND NOT EXISTS (SELECT FROM events e WHERE e.job_id = j.id AND e.claim = j.claim AND e.type = 'job.' || j.status)
UNION ALL
SELECT 'a success without outputs', id::text
FROM jobs j
WHERE status = 'succeeded' AND erased_at IS NULL AND outputs IS NULL
UNION ALL
SELECT 'a batch of another size', b.id::text
FROM batches b
WHERE b.tenant_id <> $1 AND b.accepted <> (SELECT count(*) FROM jobs j WHERE j.batch_id = b.id)
UNION ALL
SELECT 'a completed batch without its one event', b.id::text
FROM batches b
WHERE b.tenant_id <> $1
  AND 1 <> (SELECT count(*) FROM events e WHERE e.type = 'batch.completed' AND e.traceparent = b.traceparent)
UNION ALL
SELECT 'a key of a job that is not there', k.key
FROM idempotency_keys k
WHERE k.tenant_id <> $1 AND k.job_id IS NOT NULL AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = k.job_id)
UNION ALL
SELECT 'an upload that nobody goes on with', id::text
FROM files
WHERE status = 'uploading'
UNION ALL
SELECT 'a file of a job that failed', f.id::text
FROM files f
JOIN jobs j ON j.id = f.job_id AND j.status <> 'succeeded'
WHERE f.created_at > j.started_at
UNION ALL
SELECT 'more tries than attempts', d.id::text
FROM deliveries d
WHERE d.tries > (SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id) + (d.started_at IS NOT NULL)::integer
UNION ALL
SELECT 'a recovery of another count', r.id::text
FROM recoveries r
WHERE r.next_at IS NULL AND r.recovered > (SELECT count(*) FROM deliveries d WHERE d.endpoint_id = r.webhook_id);

-- name: compare_usage
-- The usage of tenants, except some ($1), beside the ends of their jobs: each end has an event, also before a retry. A job
-- that took another one's result is counted apart.
SELECT coalesce(u.model, e.model) AS model, u.counted, e.ended
FROM (
  SELECT tenant_id, model, sum(succeeded) + sum(reused) || ',' || sum(failed) || ',' || sum(canceled) || ',' || sum(expired) AS counted
  FROM usage
  WHERE tenant_id <> ALL($1::uuid[])
  GROUP BY tenant_id, model
) u
FULL JOIN (
  SELECT tenant_id, model,
         count(*) FILTER (WHERE type = 'job.succeeded') || ',' || count(*) FILTER (WHERE type = 'job.failed') || ','
           || count(*) FILTER (WHERE type = 'job.canceled') || ',' || count(*) FILTER (WHERE type = 'job.expired') AS ended
  FROM events
  WHERE type IN ('job.succeeded', 'job.failed', 'job.canceled', 'job.expired') AND tenant_id <> ALL($1::uuid[])
  GROUP BY tenant_id, model
) e USING (tenant_id, model)
WHERE u.counted IS DISTINCT FROM e.ended;

-- name: compare_bytes
-- The same for the bytes of jobs that were never retried: not of `faulty`, and of pipelines with it.
SELECT u.model, u.bytes_in, j.bytes_in AS of_jobs, u.bytes_out, j.bytes_out AS of_outputs
FROM (
  SELECT tenant_id, model, sum(bytes_in) AS bytes_in, sum(bytes_out) AS bytes_out
  FROM usage
  WHERE tenant_id <> ALL($1::uuid[]) AND model NOT IN ('faulty', 'broken', 'broken_rows')
  GROUP BY tenant_id, model
) u
JOIN (
  SELECT tenant_id, model, sum(input_bytes) AS bytes_in,
         coalesce(sum(octet_length(outputs) + output_file_bytes), 0) AS bytes_out
  FROM jobs
  WHERE parent IS NULL
  GROUP BY tenant_id, model
) j USING (tenant_id, model)
WHERE (u.bytes_in, u.bytes_out) IS DISTINCT FROM (j.bytes_in, j.bytes_out);

-- name: list_attempts
-- The attempts that ended without an end of their job, oldest first.
SELECT job_id, status, error_code, started_at FROM job_attempts WHERE status IN ('returned', 'failed') ORDER BY started_at;
