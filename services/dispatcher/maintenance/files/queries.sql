-- name: lock_expired_files
-- Locks up to $1 files whose time is over. Leaves out one while a submit that reads it is under way.
SELECT id FROM files WHERE expires_at <= now() ORDER BY expires_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED;

-- name: claim_expired_files
-- Marks locked files ($1) as being deleted, but not those that jobs need which wait or run. Looks at all of them again in
-- $2 seconds. Returns each, with whether it is to be deleted now.
UPDATE files
SET status = CASE
      WHEN EXISTS (
        SELECT FROM jobs WHERE generation <= 0 AND input_files @> ARRAY[files.id] AND input_files IS NOT NULL
      ) THEN status
      ELSE 'deleting'
    END,
    expires_at = now() + make_interval(secs => $2)
WHERE id = ANY ($1::uuid[])
RETURNING id, tenant_id, status = 'deleting' AS expired;

-- name: remove_files
-- Removes files ($1) whose content is gone. If a presigned URL can still write one, its row stays for a later sweep.
DELETE FROM files WHERE id = ANY ($1::uuid[]) AND status = 'deleting' AND coalesce(writable_until, '-infinity') <= now();

-- name: list_unchecked_files
-- Returns up to $1 files that presigned URLs could write until $2 seconds ago, and whose size was not checked since.
SELECT id, tenant_id, size
FROM files
WHERE status = 'ready' AND writable_until > '-infinity' AND writable_until <= now() - make_interval(secs => $2)
ORDER BY writable_until
LIMIT $1;

-- name: save_checked_files
-- Notes that the size of files ($1) was checked. The time of those that have another size ($2) is over.
UPDATE files
SET writable_until = '-infinity', expires_at = CASE WHEN id = ANY ($2::uuid[]) THEN now() ELSE expires_at END
WHERE id = ANY ($1::uuid[]) AND status = 'ready';

-- name: find_tenant_to_sweep
-- Returns the next tenant of the pass over the objects of all tenants, if there is one left.
SELECT id FROM tenants WHERE id > (SELECT swept_until FROM orphan_sweep) ORDER BY id LIMIT 1;

-- name: save_swept_tenant
-- Notes that the pass is done with a tenant ($1).
UPDATE orphan_sweep SET swept_until = $1;

-- name: begin_orphan_sweep
-- Begins the next pass, unless the last one began less than $1 seconds ago.
UPDATE orphan_sweep
SET swept_until = DEFAULT, began_at = now()
WHERE began_at <= now() - make_interval(secs => $1)
RETURNING began_at;

-- name: check_again
-- Lets the sizes of files ($1) be checked once more whose object has another size ($2) than it had at the check. Not every
-- presigned URL signs a length, and a second PUT may have ended later.
UPDATE files
SET writable_until = now()
FROM unnest($1::uuid[], $2::bigint[]) AS found(id, size)
WHERE files.id = found.id AND files.size <> found.size AND status = 'ready' AND writable_until = '-infinity';
