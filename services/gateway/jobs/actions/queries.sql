-- name: find_retryable_jobs
-- Returns those of a tenant's ($1) jobs ($2) that have one of these statuses ($3) and are not erased, each with the bytes of
-- its inputs. No input is read for it.
SELECT id, octet_length(tensors) AS size
FROM jobs
WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND status = ANY($3::text[]) AND erased_at IS NULL;

-- name: find_job_states
-- Returns those of a tenant's ($1) jobs ($2) that there are, with what they are now.
SELECT id, status, erased_at IS NOT NULL AS erased FROM jobs WHERE tenant_id = $1 AND id = ANY($2::uuid[]);

-- name: read_packed_inputs
-- Returns the inputs of a tenant's ($1) jobs ($2).
SELECT id AS job_id, tensors FROM jobs WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND erased_at IS NULL;

-- name: list_job_models
-- Returns the models of a tenant's ($1) jobs ($2), with their fallback models.
SELECT DISTINCT model, fallback_model
FROM jobs
WHERE tenant_id = $1 AND id = ANY($2::uuid[])
ORDER BY model, fallback_model;

-- name: find_kin
-- Returns those of a tenant's ($1) jobs ($2) that are runs, or of the steps of one.
SELECT id, parent, step, run_state IS NOT NULL AS is_run
FROM jobs
WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND (parent IS NOT NULL OR run_state IS NOT NULL);
