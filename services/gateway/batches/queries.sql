-- name: add_batch
-- Adds a batch ($1) of a tenant ($2).
INSERT INTO batches (id, tenant_id, total, accepted, traceparent)
VALUES ($1, $2, $3, $4, $5)
RETURNING id, total, accepted, created_at, finished_at;

-- name: add_batch_items
-- Adds items of a batch ($1): their indexes ($2), with a job ($3) or the problem why there is none ($5), and the client's
-- names ($4).
INSERT INTO batch_items (batch_id, index, job_id, custom_id, problem)
SELECT $1, * FROM unnest($2::integer[], $3::uuid[], $4::text[], $5::bytea[]);

-- name: find_batch
-- Returns a tenant's ($2) batch ($1).
SELECT id, total, accepted, created_at, finished_at, canceled_at, read_to IS NULL AS is_read
FROM batches
WHERE id = $1 AND tenant_id = $2;

-- name: cancel_batch
-- Marks a tenant's ($2) batch ($1) as canceled, unless it is completed. No line of its file becomes a job after that.
UPDATE batches
SET canceled_at = coalesce(canceled_at, now())
WHERE id = $1 AND tenant_id = $2 AND finished_at IS NULL
RETURNING id;

-- name: find_canceled_batches
-- Returns the oldest canceled batch of each tenant that has jobs to cancel.
SELECT DISTINCT ON (b.tenant_id) b.tenant_id, b.id
FROM batches b
WHERE b.finished_at IS NULL AND b.canceled_at IS NOT NULL
  AND (
    SELECT j.id
    FROM jobs j
    WHERE j.batch_id = b.id AND j.generation <= 0 AND j.status IN ('queued', 'processing')
    LIMIT 1
  ) IS NOT NULL
ORDER BY b.tenant_id, b.id;

-- name: find_jobs_to_cancel
-- Returns up to $2 jobs of a batch ($1) that wait or run, and are not being canceled.
SELECT id FROM jobs WHERE batch_id = $1 AND generation <= 0 AND status IN ('queued', 'processing') LIMIT $2;

-- name: find_open_job
-- Returns a job of a batch ($1) that waits or runs.
SELECT id FROM jobs WHERE batch_id = $1 AND generation <= 0 LIMIT 1;

-- name: measure_results
-- Returns the next $3 items of a batch ($1) from an index ($2), each with the bytes of its result. No output is read for it.
WITH page AS MATERIALIZED (
  SELECT index, job_id, coalesce(octet_length(problem), 0) AS size
  FROM batch_items
  WHERE batch_id = $1 AND index >= $2
  ORDER BY index
  LIMIT $3
)
SELECT page.index, page.size + coalesce(octet_length(j.metadata), 0) + coalesce(octet_length(j.outputs), 0) AS size
FROM page
LEFT JOIN jobs j ON j.id = page.job_id
ORDER BY page.index;

-- name: read_results
-- Returns items of a batch ($1) from an index ($2), each with its job and the job's outputs. A job that was removed is NULL.
-- Leaves out a result that has grown beyond its size when it was measured ($3), because the job has ended since. It does not
-- check the tenant: the caller did.
WITH page AS MATERIALIZED (
  SELECT index, custom_id, problem, job_id, ($3::bigint[])[index - $2::integer + 1] AS size
  FROM batch_items
  WHERE batch_id = $1 AND index >= $2
  ORDER BY index
  LIMIT cardinality($3)
)
SELECT page.index, page.custom_id, page.problem, j.*, (SELECT outputs FROM jobs WHERE id = j.id) AS outputs
FROM page
LEFT JOIN job_facts j ON j.id = page.job_id
WHERE coalesce(octet_length(page.problem), 0) + coalesce(octet_length(j.metadata), 0) + coalesce(j.outputs_size, 0)
    <= page.size
ORDER BY page.index;
