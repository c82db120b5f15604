-- name: find_job
-- Returns a tenant's ($2) job ($1) with the size of its outputs and the status of its webhooks. Outputs over $3 bytes are
-- left out; their size is known without reading them. So is a request over $3 bytes.
SELECT
  j.*, (SELECT request FROM jobs WHERE id = j.id AND j.request_size <= $3 AND j.erased_at IS NULL) AS request,
  (SELECT outputs FROM jobs WHERE id = j.id AND j.outputs_size <= $3::integer) AS outputs,
  CASE
    WHEN d.failed > 0 THEN 'failed'
    WHEN d.pending > 0 THEN 'pending'
    WHEN j.has_callback AND j.finished_at IS NULL THEN 'pending'
    WHEN d.succeeded > 0 THEN 'succeeded'
    ELSE 'none'
  END AS webhook_status
FROM job_facts j
CROSS JOIN LATERAL (
  SELECT
    count(*) FILTER (WHERE d.status IN ('exhausted', 'canceled')) AS failed,
    count(*) FILTER (WHERE d.status = 'pending') AS pending,
    count(*) FILTER (WHERE d.status = 'succeeded') AS succeeded
  FROM events e
  JOIN visible_deliveries d ON d.event_id = e.id
  WHERE e.job_id = j.id
) d
WHERE j.id = $1 AND j.tenant_id = $2;

-- name: find_position
-- Returns the queue position of a tenant's ($3) job ($4) among the jobs of its model ($1) and priority ($2). Tenants are
-- served in turn, so these jobs come first: the tenant's older jobs, at most one more than that of each other tenant, and
-- all jobs of higher priorities ($5). Counts up to $6 jobs, and up to $7 other tenants. Counts only jobs that may start.
WITH RECURSIVE own AS MATERIALIZED (
  SELECT count(*)::integer AS jobs
  FROM (
    SELECT
    FROM live_jobs
    WHERE model = $1
      AND priority = $2
      AND tenant_id >= $3
      AND (tenant_id, id) < ($3, $4)
      AND status = 'queued'
      AND scheduled_at IS NULL
    ORDER BY tenant_id, id -- so that the planner uses this index
    LIMIT $6::integer
  ) ahead
), others AS (
  SELECT '00000000-0000-0000-0000-000000000000'::uuid AS tenant_id, 0 AS number, (SELECT jobs FROM own) AS total
  UNION ALL
  SELECT next.tenant_id, others.number + 1, others.total + counted.jobs
  FROM others
  CROSS JOIN LATERAL (
    SELECT tenant_id
    FROM live_jobs
    WHERE model = $1 AND priority = $2 AND tenant_id > others.tenant_id AND status = 'queued' AND scheduled_at IS NULL
    ORDER BY tenant_id, id
    LIMIT 1
  ) next
  CROSS JOIN LATERAL (
    SELECT count(*)::integer AS jobs
    FROM (
      SELECT
      FROM live_jobs
      WHERE model = $1
        AND priority = $2
        AND tenant_id BETWEEN next.tenant_id AND next.tenant_id
        AND next.tenant_id <> $3
        AND status = 'queued'
        AND scheduled_at IS NULL
      ORDER BY tenant_id, id
      LIMIT least((SELECT jobs FROM own) + 1, $6 - others.total)
    ) waiting
  ) counted
  WHERE others.total < $6 AND others.number <= $7::integer
), above AS (
  SELECT count(*)::integer AS jobs
  FROM (
    SELECT
    FROM unnest($5::text[]) AS class (name)
    CROSS JOIN LATERAL (
      SELECT
      FROM live_jobs
      WHERE model = $1 AND priority = class.name AND status = 'queued' AND scheduled_at IS NULL
      ORDER BY tenant_id, id
      LIMIT $6
    ) each
    LIMIT $6 - (SELECT max(total) FROM others)
  ) waiting
)
SELECT (SELECT max(total) FROM others) + jobs + 1 AS position FROM above;

-- name: has_job
-- Returns a row if the tenant ($2) has this job ($1).
SELECT FROM jobs WHERE id = $1 AND tenant_id = $2;

-- name: measure_outputs
-- Returns the tenant of a succeeded job ($1), the size of its outputs, and whether other jobs may share their files. It does
-- not check the tenant: the caller checked a signature.
SELECT tenant_id, octet_length(outputs) AS size, num_nonnulls(reuse_key, run_state) > 0 AS is_shared
FROM jobs
WHERE id = $1 AND outputs IS NOT NULL;

-- name: read_outputs
-- Returns the outputs of a succeeded job ($1). It does not check the tenant: the caller did, or checked a signature.
SELECT outputs FROM jobs WHERE id = $1 AND outputs IS NOT NULL;

-- name: find_inputs
-- Returns the size of the inputs of a tenant's ($2) job ($1), whether they were erased, and the inputs with at most $3
-- bytes.
SELECT
  octet_length(tensors) AS size,
  erased_at IS NOT NULL AS erased,
  CASE WHEN octet_length(tensors) <= $3::integer THEN tensors END AS tensors
FROM jobs
WHERE id = $1 AND tenant_id = $2;

-- name: read_inputs
-- Returns the inputs of a job ($1). It does not check the tenant: the caller did.
SELECT tensors FROM jobs WHERE id = $1;

-- name: find_status
-- Returns the status of a job ($1). It does not check the tenant: the caller did, or checked a signature.
SELECT status FROM jobs WHERE id = $1;

-- name: list_attempts
-- Returns the latest $3 ended attempts of a tenant's ($2) job ($1), newest first.
SELECT a.attempt, a.count, a.model, a.worker, a.started_at, a.finished_at, a.status, a.error_code, a.error_message
FROM ended_attempts a
JOIN jobs j ON j.id = a.job_id
WHERE a.job_id = $1 AND j.tenant_id = $2
ORDER BY a.claim DESC
LIMIT $3;

-- name: list_dead_letters
-- Returns a page of a tenant's ($1) failed jobs before an id ($2), newest first. Filters by model ($3), error ($4) and
-- creation time ($5 to $6).
SELECT j.*
FROM job_facts j
WHERE j.tenant_id = $1
  AND j.generation > 0
  AND j.status = 'failed'
  AND j.erased_at IS NULL -- an erased job cannot be replayed
  AND j.parent IS NULL
  AND j.id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  AND ($3::text IS NULL OR j.model = $3)
  AND ($4::text IS NULL OR j.error_code = $4)
  AND ($5::timestamptz IS NULL OR j.created_at >= $5)
  AND ($6::timestamptz IS NULL OR j.created_at < $6)
ORDER BY j.id DESC
LIMIT $7;

-- name: list_jobs
-- Returns a page of a tenant's ($1) jobs with these statuses ($2), newest first: after a place ($3, $4), created at or
-- after a time ($5). Each status has an index in this order. Running jobs are few, so they are sorted. Jobs of steps are left
-- out.
WITH found AS (
  SELECT j.id, j.created_at
  FROM unnest($2::text[]) AS statuses (status)
  CROSS JOIN LATERAL (
    SELECT id, created_at
    FROM jobs
    WHERE tenant_id = $1
      AND status = statuses.status
      AND generation > 0
      AND status IN ('succeeded', 'failed', 'canceled', 'expired') -- fits the index
      AND parent IS NULL
      AND (created_at, id) < ($3::timestamptz, $4::uuid)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  ) j
  UNION ALL
  (
    SELECT id, created_at
    FROM live_jobs
    WHERE tenant_id = $1
      AND 'queued' = ANY($2)
      AND finished_at IS NULL
      AND lease_until IS NULL
      AND parent IS NULL
      AND (created_at, id) < ($3, $4)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT id, created_at
  FROM live_jobs
  WHERE lease_until > '-infinity' -- all running jobs
    AND tenant_id = $1
    AND status = ANY($2)
    AND parent IS NULL
    AND (created_at, id) < ($3, $4)
    AND created_at >= $5
  UNION ALL
  (
    SELECT id, created_at
    FROM live_runs
    WHERE tenant_id = $1
      AND status = ANY($2)
      AND (created_at, id) < ($3, $4)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  )
), page AS MATERIALIZED (
  SELECT id FROM found ORDER BY created_at DESC, id DESC LIMIT $6
)
SELECT j.*
FROM page
JOIN job_facts j ON j.id = page.id
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
      AND generation > 0
      AND status IN ('succeeded', 'failed', 'canceled', 'expired') -- fits the index
      AND parent IS NULL
      AND (created_at, id) < ($3::timestamptz, $4::uuid)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  ) j
  UNION ALL
  (
    SELECT id, created_at
    FROM live_jobs
    WHERE tenant_id = $1
      AND model = $7
      AND 'queued' = ANY($2)
      AND finished_at IS NULL
      AND lease_until IS NULL
      AND parent IS NULL
      AND (created_at, id) < ($3, $4)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT id, created_at
  FROM live_jobs
  WHERE lease_until > '-infinity' -- all running jobs
    AND tenant_id = $1
    AND model = $7
    AND status = ANY($2)
    AND parent IS NULL
    AND (created_at, id) < ($3, $4)
    AND created_at >= $5
  UNION ALL
  (
    SELECT id, created_at
    FROM live_runs
    WHERE tenant_id = $1
      AND model = $7
      AND status = ANY($2)
      AND (created_at, id) < ($3, $4)
      AND created_at >= $5
    ORDER BY created_at DESC, id DESC
    LIMIT $6
  )
), page AS MATERIALIZED (
  SELECT id FROM found ORDER BY created_at DESC, id DESC LIMIT $6
)
SELECT j.*
FROM page
JOIN job_facts j ON j.id = page.id
ORDER BY j.created_at DESC, j.id DESC;

-- name: list_jobs_of_batch
-- Returns the same as list_jobs, of one batch ($7) and optionally one model ($8). A batch is small enough to sort.
SELECT j.*
FROM job_facts j
WHERE j.tenant_id = $1
  AND j.batch_id = $7::uuid
  AND (j.status = ANY($2::text[])) IS TRUE -- so that the planner ignores the indexes of ended jobs
  AND (j.created_at, j.id) < ($3::timestamptz, $4::uuid)
  AND j.created_at >= $5
  AND ($8::text IS NULL OR j.model = $8)
ORDER BY j.created_at DESC, j.id DESC
LIMIT $6;

-- name: list_jobs_of_run
-- Returns a page of the jobs of a tenant's ($1) run ($7), in the order of its steps' names and of their elements: after one
-- (step $8, element $9). Filters by step ($10), statuses ($2), model ($6) and time of creation ($3 to $4).
SELECT j.*
FROM job_facts j
WHERE j.tenant_id = $1
  AND j.generation >= 0 -- a run has no parent
  AND j.parent = $7::uuid
  AND (j.step, j.step_index) > ($8::text, $9::integer)
  AND ($10::text IS NULL OR j.step = $10)
  AND (j.status = ANY($2::text[])) IS TRUE -- so that the planner ignores the indexes of ended jobs
  AND j.created_at >= $3
  AND j.created_at < $4
  AND ($6::text IS NULL OR j.model = $6)
ORDER BY j.step, j.step_index
LIMIT $5;
