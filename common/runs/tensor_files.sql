-- name: begin_files
-- Adds the files ($2) with tensors of a tenant's ($1) run, and their bytes ($3), before their objects. They are deleted unless
-- the run keeps them within $4 seconds.
INSERT INTO files (id, tenant_id, content_type, size, kept, expires_at)
SELECT id, $1, 'application/octet-stream', size, $4, now() + make_interval(secs => $4)
FROM unnest($2::uuid[], $3::bigint[]) AS given(id, size);
