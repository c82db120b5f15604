-- name: list_attempts
-- Return the attempts of deliveries ($1), oldest first, each with the first $2 bytes of the response.
SELECT delivery_id, number, started_at, duration_ms, status_code, error, substring(response FOR $2) AS response
FROM attempts
WHERE delivery_id = ANY($1::uuid[])
ORDER BY delivery_id, number;
