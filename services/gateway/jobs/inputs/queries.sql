-- name: find_input_files
-- Returns those of a tenant's ($2) files ($1) that jobs may read, with their bytes. What presigned URLs wrote was not hashed.
SELECT id, size, CASE WHEN writable_until IS NULL THEN sha256 END AS sha256
FROM files
WHERE id = ANY ($1::uuid[]) AND tenant_id = $2 AND status = 'ready' AND expires_at > now();

-- name: measure_stored
-- Returns the bytes of all files of tenants ($1), those of their jobs and uploads included.
SELECT tenant_id, sum(size)::bigint AS size FROM files WHERE tenant_id = ANY ($1::uuid[]) GROUP BY tenant_id;

-- name: begin_large_inputs
-- Adds the files ($2) with inputs of a tenant's ($1) jobs, and their bytes ($3), before the jobs. They are deleted unless
-- the jobs are added within $4 seconds.
INSERT INTO files (id, tenant_id, content_type, size, kept, expires_at)
SELECT id, $1, 'application/octet-stream', size, $4, now() + make_interval(secs => $4)
FROM unnest($2::uuid[], $3::bigint[]) AS given(id, size);
