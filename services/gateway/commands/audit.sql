-- name: list_whole_audit_log
-- Returns a page ($3) of all recorded changes, newest first: before a place (time $1, id $2).
SELECT id, tenant_id, at, actor, action, target, changes
FROM audit_log
WHERE (at, id) < ($1::timestamptz, $2::uuid)
ORDER BY at DESC, id DESC
LIMIT $3;
