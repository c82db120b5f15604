-- name: lock_input_files
-- Locks those of the files that jobs may still read, until the transaction ends. Until then nobody deletes them. One
-- that is being deleted right now is left out: no submit waits for it.
SELECT id
FROM files
WHERE id = ANY (:files::uuid[]) AND status = 'ready' AND expires_at > now()
FOR SHARE SKIP LOCKED;

-- name: has_usable_file
-- Returns whether jobs may read one of the files, as far as is committed.
SELECT EXISTS (
  SELECT FROM files WHERE id = ANY (:files::uuid[]) AND status = 'ready' AND expires_at > now()
) AS found;

-- name: keep_large_inputs
-- Gives files to the jobs that were added in this transaction, with the SHA-256 of what is stored. Returns those that
-- are still there.
UPDATE files f
SET status = 'ready', job_id = given.job_id, sha256 = given.sha256, created_at = now(), expires_at = 'infinity'
FROM unnest(:kept.file::uuid[], :kept.job::uuid[], :kept.sha256::bytea[]) AS given(id, job_id, sha256)
WHERE f.id = given.id AND f.status = 'uploading'
RETURNING f.id;

-- name: drop_large_inputs
-- Lets a sweeper delete those of the files that no job got.
UPDATE files SET status = 'deleting', expires_at = now() WHERE id = ANY (:files::uuid[]) AND status = 'uploading';
