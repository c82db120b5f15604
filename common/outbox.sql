-- name: delete_confirmed
-- Delete messages that the broker has confirmed.
DELETE FROM outbox WHERE id = ANY($1::uuid[]);

-- name: lock_due
-- Return up to $1 overdue messages: their process did not get them confirmed in time. Lock them for this relay.
SELECT id, exchange, routing_key, body, traceparent
FROM outbox
WHERE due_at <= now()
ORDER BY due_at
LIMIT $1
FOR UPDATE SKIP LOCKED;

-- name: postpone
-- Put off messages that the broker did not confirm, for $2 seconds, so that later ones come first.
UPDATE outbox SET due_at = now() + make_interval(secs => $2::double precision) WHERE id = ANY($1::uuid[]);
