-- name: find_next_recovery
-- Find the next due recovery. A recovery waits while its subscription is disabled, and while deliveries
-- are still to be canceled.
SELECT r.id, r.webhook_id
FROM recoveries r
JOIN webhooks w ON w.id = r.webhook_id
JOIN endpoints e ON e.id = r.webhook_id
WHERE r.next_at <= now() AND w.disabled_at IS NULL AND e.cancel_before IS NULL
ORDER BY r.next_at
LIMIT 1;

-- name: lock_recovery
-- Lock a recovery ($1) of a locked endpoint until the transaction ends, if it is still due.
SELECT r.id, r.webhook_id, r.since, r.until, r.last_delivery_id
FROM recoveries r
JOIN webhooks w ON w.id = r.webhook_id
JOIN endpoints e ON e.id = r.webhook_id
WHERE r.id = $1 AND r.next_at <= now() AND w.disabled_at IS NULL AND e.cancel_before IS NULL
FOR NO KEY UPDATE OF r;

-- name: count_due
-- Count the due deliveries of an endpoint ($1), up to $2.
SELECT count(*) AS due
FROM (
  SELECT 1 FROM live_deliveries WHERE endpoint_id = $1 AND next_at <= now() LIMIT $2
) counted;

-- name: requeue_deliveries
-- Make up to $7 failed deliveries of a locked endpoint ($1) due now: those with ids between $2 and
-- $3, created from $4 to before $5, of any event type but $6. An ended delivery starts its schedule
-- again, and the attempt that ended it becomes an earlier one. A pending delivery keeps its place in
-- its schedule. Return their ids.
WITH chosen AS MATERIALIZED (
  SELECT *
  FROM deliveries
  WHERE endpoint_id = $1
    AND id > $2
    AND id < $3
    AND created_at >= $4
    AND created_at < $5
    AND (status IN ('exhausted', 'canceled') OR (status = 'pending' AND tries > 0 AND lease_until IS NULL))
    AND event_type <> $6
  ORDER BY id
  LIMIT $7
  FOR NO KEY UPDATE
), events_kept AS ( -- as long as what is sent again
  UPDATE events SET generation = current_generation()
  WHERE id IN (SELECT event_id FROM chosen) AND generation <> current_generation()
  RETURNING id
), others_kept AS (
  UPDATE deliveries
  SET generation = CASE generation WHEN 0 THEN 0 ELSE current_generation() END, event_generation = current_generation()
  WHERE event_id = ANY(ARRAY(SELECT id FROM events_kept)) AND id <> ALL(ARRAY(SELECT id FROM chosen))
), attempts_kept AS (
  UPDATE attempts SET generation = current_generation()
  WHERE delivery_id IN (SELECT id FROM chosen) AND generation <> current_generation()
), kept AS (
  INSERT INTO attempts (delivery_id, number, started_at, duration_ms, status_code, error, response)
  SELECT id, attempt, started_at, duration_ms, status_code, error, response FROM chosen WHERE started_at IS NOT NULL
)
UPDATE deliveries d
SET status = 'pending',
    tries = CASE WHEN d.status = 'pending' THEN d.tries ELSE 0 END,
    schedule_started_at = CASE WHEN d.status = 'pending' THEN d.schedule_started_at ELSE now() END,
    next_at = least(d.next_at, now()),
    finished_at = NULL,
    generation = 0,
    event_generation = current_generation(),
    started_at = NULL, duration_ms = NULL, status_code = NULL, error = NULL, response = NULL
FROM chosen
WHERE d.id = chosen.id
RETURNING d.id;

-- name: advance_recovery
-- Save a recovery's ($1) position ($2) and add $3 re-sent deliveries. It continues after $4 seconds
-- (NULL: it is done).
UPDATE recoveries
SET last_delivery_id = $2, recovered = recovered + $3, next_at = now() + make_interval(secs => $4::double precision)
WHERE id = $1;
