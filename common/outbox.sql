-- name: confirm
-- The broker has these messages.
DELETE FROM outbox WHERE id = ANY($1::uuid[]);

-- name: take_due
-- Messages whose committing process did not get them confirmed in time; held for this relay by their locks.
SELECT id, exchange, routing_key, body, traceparent
FROM outbox
WHERE due_at <= now()
ORDER BY due_at
LIMIT $1
FOR UPDATE SKIP LOCKED;

-- name: postpone
-- These were not taken by the broker; later ones get their turn before they are tried again.
UPDATE outbox SET due_at = now() + make_interval(secs => $2::double precision) WHERE id = ANY($1::uuid[]);
