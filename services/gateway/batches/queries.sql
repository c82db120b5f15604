-- name: add_batch
-- Adds a batch ($1) of a tenant ($2).
INSERT INTO batches (id, tenant_id, total, accepted, traceparent)
VALUES ($1, $2, $3, $4, $5)
RETURNING id, total, accepted, created_at, finished_at;

-- name: find_batch
-- Returns a tenant's ($2) batch ($1).
SELECT id, total, accepted, created_at, finished_at FROM batches WHERE id = $1 AND tenant_id = $2;
