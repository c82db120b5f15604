-- name: list_audit_log
-- Returns a page of the changes of a tenant ($1), newest first: before a place (time $2, id $3), from a time ($4) on.
-- Filters by action ($5).
SELECT id, tenant_id, at, actor, action, target, changes
FROM audit_log
WHERE (tenant_id, at, id) < ($1, $2::timestamptz, $3::uuid)
  AND (tenant_id, at) >= ($1, $4) -- both bounds hold for no other tenant, and fit no other index
  AND ($5::text IS NULL OR action = $5)
ORDER BY tenant_id DESC, at DESC, id DESC
LIMIT $6;

-- name: list_whole_audit_log
-- Returns a page ($3) of all recorded changes, newest first: before a place (time $1, id $2).
SELECT id, tenant_id, at, actor, action, target, changes
FROM audit_log
WHERE (at, id) < ($1::timestamptz, $2::uuid)
ORDER BY at DESC, id DESC
LIMIT $3;
