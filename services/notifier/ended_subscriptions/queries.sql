-- name: find_canceling
-- Find up to $1 endpoints with deliveries that are still to be canceled, or deleted with their subscription.
SELECT id, cancel_before = 'infinity' AS deleted
FROM endpoints
WHERE cancel_before > '-infinity'
ORDER BY cancel_before
LIMIT $1;

-- name: cancel_deliveries
-- Cancel up to $2 of the deliveries that waited for an endpoint ($1) when its subscription was disabled. Skip deliveries
-- that are locked, or have an attempt in flight.
WITH disabled AS MATERIALIZED (
  SELECT cancel_before AS at FROM endpoints WHERE id = $1 AND cancel_before < 'infinity'
), chosen AS MATERIALIZED (
  SELECT id
  FROM live_deliveries
  WHERE endpoint_id = $1
    AND next_at IS NOT NULL
    AND schedule_started_at < (SELECT at FROM disabled)
    AND (lease_until > now()) IS NOT TRUE
  ORDER BY next_at -- so that the planner uses this index, and each batch skips what earlier ones left dead
  LIMIT $2
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE deliveries d
SET status = 'canceled', next_at = NULL, finished_at = (SELECT at FROM disabled), lease_until = NULL,
    generation = event_generation
FROM chosen
WHERE d.id = chosen.id AND d.generation = 0
RETURNING d.id;

-- name: delete_deliveries
-- Delete up to $2 deliveries of a deleted subscription's endpoint ($1), with their attempts. Skip deliveries that are
-- locked.
WITH chosen AS MATERIALIZED (
  SELECT id FROM deliveries WHERE endpoint_id = $1 LIMIT $2 FOR UPDATE SKIP LOCKED
), deleted_attempts AS (
  DELETE FROM attempts USING chosen WHERE delivery_id = chosen.id
)
DELETE FROM deliveries USING chosen WHERE deliveries.id = chosen.id RETURNING deliveries.id;

-- name: end_canceling
-- End the canceling of a locked endpoint ($1) if no delivery is left to cancel. While the subscription is disabled, an
-- attempt in flight may still leave one, and so may a notifier that takes a new delivery now: it saw the subscription
-- enabled. Return the id if it ended.
UPDATE endpoints e SET cancel_before = NULL
WHERE e.id = $1
  AND e.cancel_before < 'infinity'
  AND (
    SELECT d.id
    FROM live_deliveries d
    WHERE d.endpoint_id = e.id
      AND d.next_at IS NOT NULL
      AND d.schedule_started_at < e.cancel_before
      AND (
        (d.lease_until > now()) IS NOT TRUE
        OR (SELECT w.disabled_at IS NOT NULL FROM webhooks w WHERE w.id = e.webhook_id)
      )
    LIMIT 1
  ) IS NULL
  AND (
    SELECT d.id
    FROM live_deliveries d
    JOIN webhooks w ON w.id = d.endpoint_id AND w.disabled_at IS NOT NULL
    WHERE d.endpoint_id = e.id AND d.next_at IS NULL AND d.created_at < e.cancel_before
    LIMIT 1
  ) IS NULL
RETURNING e.id;
