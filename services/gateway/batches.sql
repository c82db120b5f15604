-- name: add_batch
INSERT INTO batches (id, tenant_id, total, accepted, traceparent)
VALUES ($1, $2, $3, $4, $5)
RETURNING id, total, accepted, created_at, finished_at;

-- name: find_batch
SELECT id, total, accepted, created_at, finished_at FROM batches WHERE id = $1 AND tenant_id = $2;
