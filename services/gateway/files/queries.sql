-- name: lock_quota
-- Lets nobody else add bytes to a tenant's ($1) files until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('files ' || $1::uuid::text, 0));

-- name: measure_files
-- Returns how many files of its own a tenant ($1) has, and the bytes of all, those of its jobs included. Leaves out one file
-- ($2).
SELECT count(*) FILTER (WHERE job_id IS NULL) AS files, coalesce(sum(size), 0)::bigint AS size
FROM files
WHERE tenant_id = $1 AND id <> $2;

-- name: begin_upload
-- Adds an upload ($1) of a tenant ($2) with its type ($3), size ($4), SHA-256 ($5, may be NULL) and the seconds that the file
-- is kept ($6). It is deleted unless it goes on within $7 seconds. A presigned URL ($8) may write it until then.
INSERT INTO files (id, tenant_id, content_type, size, sha256, kept, expires_at, writable_until)
SELECT $1, $2, $3, $4, $5, $6, lease.ends_at, CASE WHEN $8 THEN lease.ends_at END
FROM (SELECT now() + make_interval(secs => $7) AS ends_at) AS lease;

-- name: continue_upload
-- Notes that an upload ($1) has $2 bytes so far. It is deleted unless it goes on within $3 seconds.
UPDATE files
SET size = greatest(size, $2), expires_at = now() + make_interval(secs => $3)
WHERE id = $1 AND status = 'uploading'
RETURNING id;

-- name: finish_upload
-- Makes an upload ($1) a file with this size ($2), SHA-256 ($3), name ($4) and purpose ($5). It is kept for $6 seconds, or as
-- it was announced.
UPDATE files
SET status = 'ready', size = $2, sha256 = $3, name = $4, purpose = $5, kept = coalesce($6, kept), created_at = now(),
  expires_at = now() + make_interval(secs => coalesce($6, kept))
WHERE id = $1 AND status = 'uploading'
RETURNING id, tenant_id, status, size, sha256, content_type, created_at, expires_at, job_id, name, purpose;

-- name: finish_presigned_upload
-- Makes a presigned upload ($1) a file. Its URL is valid for $2 more seconds at most.
UPDATE files
SET status = 'ready', created_at = now(), expires_at = now() + make_interval(secs => kept),
  writable_until = least(writable_until, now() + make_interval(secs => $2))
WHERE id = $1 AND status = 'uploading' AND writable_until IS NOT NULL
RETURNING id, tenant_id, status, size, sha256, content_type, created_at, expires_at, job_id, name, purpose;

-- name: refuse_presigned_upload
-- Lets a presigned upload ($1) that came with $2 bytes be deleted at once. Its URL is valid for $3 more seconds at most. Until
-- then its bytes count, as they are.
UPDATE files
SET status = 'deleting', size = $2, expires_at = now(),
  writable_until = least(writable_until, now() + make_interval(secs => $3))
WHERE id = $1 AND status = 'uploading' AND writable_until IS NOT NULL;

-- name: give_up_upload
-- Lets an upload ($1) be deleted at once.
UPDATE files SET status = 'deleting', expires_at = now() WHERE id = $1 AND status = 'uploading';

-- name: find_file
-- Returns a file ($1), or a presigned upload. One that a job needs may have expired: its model may read it by a URL.
SELECT id, tenant_id, status, size, sha256, content_type, created_at, expires_at, job_id, name, purpose
FROM files
WHERE id = $1 AND (status = 'ready' OR (status = 'uploading' AND writable_until IS NOT NULL))
  AND (
    expires_at > now()
    OR EXISTS (SELECT FROM jobs WHERE generation <= 0 AND input_files @> ARRAY[$1] AND input_files IS NOT NULL)
  );

-- name: list_files
-- Returns a page of a tenant's ($1) files before a place ($2, $3), newest first. Leaves out those of jobs.
SELECT id, tenant_id, status, size, sha256, content_type, created_at, expires_at, job_id, name, purpose
FROM files
WHERE tenant_id = $1 AND status = 'ready' AND job_id IS NULL AND expires_at > now() AND (created_at, id) < ($2, $3)
ORDER BY created_at DESC, id DESC
LIMIT $4;

-- name: lock_file
-- Locks a tenant's ($2) file or presigned upload ($1) to delete it. Leaves out a file of a job, and one that a submit is
-- about to read.
SELECT id
FROM files
WHERE id = $1 AND tenant_id = $2 AND job_id IS NULL AND expires_at > now()
  AND (status = 'ready' OR (status = 'uploading' AND writable_until IS NOT NULL))
FOR NO KEY UPDATE SKIP LOCKED;

-- name: delete_file
-- Deletes a locked file ($1), unless a job that waits or runs reads it, or lines of it are left to become items of a batch: a
-- sweeper removes its content, and then the row.
UPDATE files
SET status = 'deleting', expires_at = now()
WHERE id = $1 AND NOT EXISTS (
  SELECT FROM jobs WHERE generation <= 0 AND input_files @> ARRAY[$1] AND input_files IS NOT NULL
) AND NOT EXISTS (SELECT FROM batches WHERE input_file = $1 AND read_to IS NOT NULL)
RETURNING id;

-- name: is_shown
-- Returns a row if a job ($1) shows its outputs: it has not been erased or removed.
SELECT FROM jobs WHERE id = $1 AND erased_at IS NULL;
