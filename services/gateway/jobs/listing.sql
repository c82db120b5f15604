-- name: list_jobs
-- Returns a page of a tenant's ($1) jobs with these statuses ($2), newest first: after a place ($3, $4), created at or
-- after a time ($5). Each status has an index in this order. Running jobs are few, so they are sorted.
WITH found AS (
  SELECT j.id, j.created_at
  FROM unnest($2::text[]) AS statuses (status)
  CROSS JOIN LATERAL (
    SELECT id, created_at
    FROM jobs
    WHERE tenant_id = $1
      AND status = statuses.status
      AND status IN ('succeeded', 'failed', 'canceled', 'expired')
      AND (created_at, id) < ($3::timestamptz, $4::uuid)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  ) j
  UNION ALL
  (
    SELECT id, created_at
    FROM jobs
    WHERE tenant_id = $1
      AND 'queued' = ANY($2)
      AND finished_at IS NULL
      AND lease_until IS NULL
      AND (created_at, id) < ($3, $4)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT id, created_at
  FROM jobs
  WHERE lease_until > '-infinity' -- all running jobs
    AND tenant_id = $1
    AND (status = ANY($2)) IS TRUE -- so that the planner ignores the indexes of ended jobs
    AND (created_at, id) < ($3, $4)
    AND created_at >= $5
), page AS MATERIALIZED (
  SELECT id FROM found ORDER BY created_at DESC, id DESC LIMIT $6
)
SELECT j.*, i.metadata
FROM page
JOIN jobs j ON j.id = page.id
JOIN job_inputs i ON i.job_id = page.id
ORDER BY j.created_at DESC, j.id DESC;

-- name: list_jobs_of_model
-- Returns the same as list_jobs, of one model ($7). A single statement for both could not use the model's indexes.
WITH found AS (
  SELECT j.id, j.created_at
  FROM unnest($2::text[]) AS statuses (status)
  CROSS JOIN LATERAL (
    SELECT id, created_at
    FROM jobs
    WHERE tenant_id = $1
      AND model = $7::text
      AND status = statuses.status
      AND status IN ('succeeded', 'failed', 'canceled', 'expired')
      AND (created_at, id) < ($3::timestamptz, $4::uuid)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  ) j
  UNION ALL
  (
    SELECT id, created_at
    FROM jobs
    WHERE tenant_id = $1
      AND model = $7
      AND 'queued' = ANY($2)
      AND finished_at IS NULL
      AND lease_until IS NULL
      AND (created_at, id) < ($3, $4)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT id, created_at
  FROM jobs
  WHERE lease_until > '-infinity' -- all running jobs
    AND tenant_id = $1
    AND model = $7
    AND (status = ANY($2)) IS TRUE -- so that the planner ignores the indexes of ended jobs
    AND (created_at, id) < ($3, $4)
    AND created_at >= $5
), page AS MATERIALIZED (
  SELECT id FROM found ORDER BY created_at DESC, id DESC LIMIT $6
)
SELECT j.*, i.metadata
FROM page
JOIN jobs j ON j.id = page.id
JOIN job_inputs i ON i.job_id = page.id
ORDER BY j.created_at DESC, j.id DESC;

-- name: list_jobs_of_batch
-- Returns the same as list_jobs, of one batch ($7) and optionally one model ($8). A batch is small enough to sort.
SELECT j.*, i.metadata
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.tenant_id = $1
  AND j.batch_id = $7::uuid
  AND (j.status = ANY($2::text[])) IS TRUE -- so that the planner ignores the indexes of ended jobs
  AND (j.created_at, j.id) < ($3::timestamptz, $4::uuid)
  AND j.created_at >= $5
  AND ($8::text IS NULL OR j.model = $8)
ORDER BY j.created_at DESC, j.id DESC
LIMIT $6;
