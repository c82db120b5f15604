-- name: list_named_files
-- Returns a page of a tenant's ($1) files before a place ($3, $4), newest first: all, or those of a purpose ($2). A file that
-- came without a purpose has $5. Leaves out those of jobs.
SELECT id, tenant_id, status, size, sha256, content_type, created_at, expires_at, job_id, name, purpose
FROM files
WHERE tenant_id = $1 AND status = 'ready' AND job_id IS NULL AND expires_at > now() AND (created_at, id) < ($3, $4)
  AND ($2::text IS NULL OR coalesce(purpose, $5) = $2)
ORDER BY created_at DESC, id DESC
LIMIT $6;

-- name: list_oldest_named_files
-- Returns a page of a tenant's ($1) files after a place ($3, $4), oldest first: all, or those of a purpose ($2). A file that
-- came without a purpose has $5. Leaves out those of jobs.
SELECT id, tenant_id, status, size, sha256, content_type, created_at, expires_at, job_id, name, purpose
FROM files
WHERE tenant_id = $1 AND status = 'ready' AND job_id IS NULL AND expires_at > now() AND (created_at, id) > ($3, $4)
  AND ($2::text IS NULL OR coalesce(purpose, $5) = $2)
ORDER BY created_at, id
LIMIT $6;
