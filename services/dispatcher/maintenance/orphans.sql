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
