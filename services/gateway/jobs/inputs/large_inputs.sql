-- name: measure_stored
-- Returns the bytes of all files of tenants ($1), those of their jobs and uploads included.
SELECT tenant_id, sum(size)::bigint AS size FROM files WHERE tenant_id = ANY ($1::uuid[]) GROUP BY tenant_id;

-- name: begin_large_inputs
-- Adds the files ($2) with inputs of a tenant's ($1) jobs, and their bytes ($3), before the jobs. They are deleted unless
-- the jobs are added within $4 seconds.
INSERT INTO files (id, tenant_id, content_type, size, kept, expires_at)
SELECT id, $1, 'application/octet-stream', size, $4, now() + make_interval(secs => $4)
FROM unnest($2::uuid[], $3::bigint[]) AS given(id, size);

-- name: keep_large_inputs
-- Gives files ($1) to the jobs ($2) that were added in this transaction, with the SHA-256 of what is stored ($3). Returns
-- those that are still there.
UPDATE files f
SET status = 'ready', job_id = given.job_id, sha256 = given.sha256, created_at = now(), expires_at = 'infinity'
FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) AS given(id, job_id, sha256)
WHERE f.id = given.id AND f.status = 'uploading'
RETURNING f.id;

-- name: drop_large_inputs
-- Lets a sweeper delete those of the files ($1) that no job got.
UPDATE files SET status = 'deleting', expires_at = now() WHERE id = ANY ($1::uuid[]) AND status = 'uploading';
