-- name: list_complete_files
-- Returns the next $3 files after an id ($1) that have been complete for $2 seconds and that no presigned URL can write.
SELECT id, tenant_id, size
FROM files
WHERE id > $1 AND status = 'ready' AND created_at <= now() - make_interval(secs => $2)
  AND coalesce(writable_until, '-infinity') <= now()
ORDER BY id
LIMIT $3;

-- name: find_complete_files
-- Returns those of the files ($1) that are complete: nobody is deleting them.
SELECT id, tenant_id, size FROM files WHERE id = ANY ($1::uuid[]) AND status = 'ready';

-- name: give_up_files
-- Lets sweepers delete those of the files ($1) that have been complete for $2 seconds and that no presigned URL can write.
-- A file of a job no longer belongs to it.
UPDATE files
SET status = 'deleting', expires_at = now(), job_id = NULL
WHERE id = ANY ($1::uuid[]) AND status = 'ready' AND created_at <= now() - make_interval(secs => $2)
  AND coalesce(writable_until, '-infinity') <= now()
RETURNING id;
