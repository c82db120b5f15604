-- name: find_input_files
-- Returns those of a tenant's ($2) files ($1) that jobs may read, with their bytes.
SELECT id, size
FROM files
WHERE id = ANY ($1::uuid[]) AND tenant_id = $2 AND status = 'ready' AND expires_at > now();
