-- name: find_traced_job
-- Returns a tenant's ($2) job ($1), with when it was last queued by a retry.
SELECT j.*, s.created_at AS retried_at
FROM job_facts j
LEFT JOIN job_steps s ON s.job_id = j.id AND s.claim = j.claim AND s.number = 0
WHERE j.id = $1 AND j.tenant_id = $2;

-- name: list_runs
-- Returns the latest $3 attempts at a tenant's ($2) job ($1), newest first: ended ones, and the one that runs. Each has when
-- a retry queued the job before it. A retry raises the claim by one, as each attempt does.
WITH job AS MATERIALIZED (
  SELECT * FROM job_facts WHERE id = $1 AND tenant_id = $2
), runs AS (
  SELECT a.claim, a.count, a.attempt, a.model, a.worker, a.due_at, a.started_at, a.finished_at, a.status, a.error_code
  FROM job
  JOIN ended_attempts a ON a.job_id = $1
  UNION ALL
  SELECT claim, 1, attempt, model, worker, run_at, started_at, NULL, status, NULL FROM job WHERE lease_until IS NOT NULL
), latest AS (
  SELECT * FROM runs ORDER BY claim DESC LIMIT $3
)
SELECT r.attempt, r.count, r.model, r.worker, r.due_at, r.started_at, r.finished_at, r.status, r.error_code,
       r.claim = r.count AS is_first, s.created_at AS retried_at
FROM latest r
LEFT JOIN job_steps s ON s.job_id = $1 AND s.claim = r.claim - r.count AND s.number = 0
ORDER BY r.claim DESC;
