-- name: find_retryable_jobs
-- Returns those of a tenant's ($1) jobs ($2) that have one of these statuses ($3) and are not erased, each with the bytes of
-- its inputs. No input is read for it.
SELECT j.id, octet_length(i.tensors) AS size
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.tenant_id = $1 AND j.id = ANY($2::uuid[]) AND j.status = ANY($3::text[]) AND j.erased_at IS NULL;

-- name: find_job_states
-- Returns those of a tenant's ($1) jobs ($2) that there are, with what they are now.
SELECT id, status, erased_at IS NOT NULL AS erased FROM jobs WHERE tenant_id = $1 AND id = ANY($2::uuid[]);

-- name: read_packed_inputs
-- Returns the inputs of a tenant's ($1) jobs ($2).
SELECT i.job_id, i.tensors
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.tenant_id = $1 AND j.id = ANY($2::uuid[]) AND j.erased_at IS NULL;

-- name: list_job_models
-- Returns the models of a tenant's ($1) jobs ($2), with their fallback models.
SELECT DISTINCT model, fallback_model
FROM jobs
WHERE tenant_id = $1 AND id = ANY($2::uuid[])
ORDER BY model, fallback_model;
