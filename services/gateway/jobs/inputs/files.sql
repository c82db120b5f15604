-- name: find_input_files
-- Returns those of a tenant's ($2) files ($1) that jobs may read, with their bytes.
SELECT id, size
FROM files
WHERE id = ANY ($1::uuid[]) AND tenant_id = $2 AND status = 'ready' AND expires_at > now();

-- name: lock_input_files
-- Locks those of the files ($1) that jobs may still read, until the transaction ends. Until then nobody deletes them. One
-- that is being deleted right now is left out: no submit waits for it.
SELECT id
FROM files
WHERE id = ANY ($1::uuid[]) AND status = 'ready' AND expires_at > now()
FOR SHARE SKIP LOCKED;

-- name: has_usable_file
-- Returns whether jobs may read one of the files ($1), as far as is committed.
SELECT EXISTS (SELECT FROM files WHERE id = ANY ($1::uuid[]) AND status = 'ready' AND expires_at > now());

-- name: add_job_files
-- Notes that jobs ($1) read files ($2).
INSERT INTO job_files (job_id, file_id) SELECT * FROM unnest($1::uuid[], $2::uuid[]);
