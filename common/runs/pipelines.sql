-- name: find_pipeline
-- Returns a version ($3) of a tenant's ($1) pipeline ($2), also a deleted one.
SELECT definition, outputs FROM pipelines WHERE tenant_id = $1 AND name = $2 AND version = $3;
