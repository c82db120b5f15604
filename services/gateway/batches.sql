-- name: hold_key
-- Whether nobody else is at work under a tenant's ($1) idempotency key ($2); from now on nobody else is, until the
-- transaction ends.
SELECT pg_try_advisory_xact_lock(hashtextextended($1::uuid::text || $2::text, 0)) AS held;

-- name: forget_key
-- A key may be used anew after a day.
UPDATE batches SET key = NULL, fingerprint = NULL
WHERE tenant_id = $1 AND key = $2 AND created_at < now() - interval '1 day';

-- name: find_named_batch
-- The batch that a tenant's ($1) idempotency key ($2) stands for.
SELECT id, total, accepted, created_at, finished_at, fingerprint
FROM batches
WHERE tenant_id = $1 AND key = $2 AND created_at >= now() - interval '1 day';

-- name: add_batch
INSERT INTO batches (id, tenant_id, total, accepted, key, fingerprint, traceparent)
VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING id, total, accepted, created_at, finished_at;

-- name: find_batch
SELECT id, total, accepted, created_at, finished_at FROM batches WHERE id = $1 AND tenant_id = $2;
