-- name: list_attempts
-- Return the attempts of deliveries ($1), oldest first, each with the first $2 bytes of the response. The
-- attempt that ended a delivery is in its row.
SELECT delivery_id, number, started_at, duration_ms, status_code, error, substring(response FOR $2) AS response
FROM attempts
WHERE delivery_id = ANY($1::uuid[])
UNION ALL
SELECT id, attempt, started_at, duration_ms, status_code, error, substring(response FOR $2)
FROM deliveries
WHERE id = ANY($1) AND started_at IS NOT NULL
ORDER BY delivery_id, number;
