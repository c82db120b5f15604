-- name: list_webhook_deliveries
-- Returns a page of the deliveries of a tenant's ($1) subscription ($2) before an id ($3), newest first. Filters by
-- status ($4), event types ($5) and creation time ($6 to $7).
SELECT id, event_id, event_type, job_id, webhook_id, url, status, created_at, next_at, finished_at
FROM visible_deliveries
WHERE tenant_id = $1
  AND endpoint_id >= $2
  AND (endpoint_id, id) < ($2, coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
  AND ($4::text IS NULL OR status = $4)
  AND ($5::text[] IS NULL OR event_type = ANY($5))
  AND ($6::timestamptz IS NULL OR created_at >= $6)
  AND ($7::timestamptz IS NULL OR created_at < $7)
ORDER BY endpoint_id DESC, id DESC -- so that the planner uses this index
LIMIT $8;

-- name: list_job_deliveries
-- Returns a page of the deliveries of a tenant's ($1) job ($2) before an id ($3), newest first. Filters by status ($4).
WITH of_job AS MATERIALIZED (
  SELECT id
  FROM events
  WHERE job_id = $2 AND tenant_id IS NOT DISTINCT FROM $1 -- fits no index: a tenant has many events, and a job few
)
SELECT d.id, d.event_id, d.event_type, d.job_id, d.webhook_id, d.url, d.status, d.created_at, d.next_at, d.finished_at
FROM of_job
CROSS JOIN LATERAL (
  SELECT * FROM visible_deliveries WHERE event_id = of_job.id OFFSET 0 -- so that the planner begins with the events
) d
WHERE d.id < coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  AND ($4::text IS NULL OR d.status = $4)
ORDER BY d.id DESC
LIMIT $5;

-- name: find_delivery
-- Returns a tenant's ($2) delivery ($1).
SELECT id, event_id, event_type, job_id, webhook_id, url, status, created_at, next_at, finished_at
FROM visible_deliveries
WHERE id = $1 AND tenant_id = $2;

-- name: find_delivery_body
-- Returns what each attempt of a tenant's ($2) delivery ($1) sends, byte for byte.
SELECT CASE w.format
  WHEN 'openai' THEN openai_event(e.id, d.event_type, e.created_at, d.job_id, w.id, e.body) ELSE e.body
END AS body
FROM visible_deliveries d
JOIN events e ON e.id = d.event_id
LEFT JOIN webhooks w ON w.id = d.webhook_id
WHERE d.id = $1 AND d.tenant_id = $2;

-- name: lock_delivery
-- Locks a tenant's ($2) delivery ($1) through its endpoint. Read the row with the next statement, as for lock_webhook.
SELECT 1
FROM deliveries d
JOIN endpoints e ON e.id = d.endpoint_id
WHERE d.id = $1 AND d.tenant_id = $2
FOR NO KEY UPDATE OF e;

-- name: find_locked_delivery
-- Returns whether the subscription of a tenant's ($2) delivery ($1) is disabled, and the delivery's job.
SELECT w.disabled_at IS NOT NULL AS disabled, d.job_id, d.traceparent
FROM visible_deliveries d
LEFT JOIN webhooks w ON w.id = d.webhook_id
WHERE d.id = $1 AND d.tenant_id = $2;

-- name: redeliver
-- Makes a delivery ($1) of a locked endpoint due before all others; the rate limit still applies. An ended schedule starts
-- again, a running one goes on. That of a delivery that is still to be canceled has ended. Does nothing while an attempt
-- runs. The attempt that ended the delivery becomes an earlier one.
WITH ended AS (
  SELECT d.*, d.status = 'pending' AND (d.schedule_started_at < e.cancel_before) IS NOT TRUE AS goes_on
  FROM deliveries d
  JOIN endpoints e ON e.id = d.endpoint_id
  WHERE d.id = $1 AND (d.lease_until IS NULL OR d.lease_until <= now())
  FOR NO KEY UPDATE OF d
), event_kept AS ( -- as long as what is sent again
  UPDATE events SET generation = current_generation()
  WHERE id = (SELECT event_id FROM ended) AND generation <> current_generation()
  RETURNING id
), others_kept AS (
  UPDATE deliveries
  SET generation = CASE generation WHEN 0 THEN 0 ELSE current_generation() END, event_generation = current_generation()
  WHERE event_id = ANY(ARRAY(SELECT id FROM event_kept)) AND id <> ALL(ARRAY(SELECT id FROM ended))
), attempts_kept AS (
  UPDATE attempts SET generation = current_generation()
  WHERE delivery_id = (SELECT id FROM ended) AND generation <> current_generation()
), kept AS (
  INSERT INTO attempts (delivery_id, number, started_at, duration_ms, status_code, error, response)
  SELECT id, attempt, started_at, duration_ms, status_code, error, response FROM ended WHERE started_at IS NOT NULL
), due AS (
  UPDATE deliveries d
  SET status = 'pending',
      tries = CASE WHEN goes_on THEN d.tries ELSE 0 END,
      schedule_started_at = CASE WHEN goes_on THEN d.schedule_started_at ELSE clock_timestamp() END,
      next_at = to_timestamp(0),
      finished_at = NULL,
      generation = 0,
      event_generation = current_generation(),
      started_at = NULL, duration_ms = NULL, status_code = NULL, error = NULL, response = NULL
  FROM ended
  WHERE d.id = ended.id
  RETURNING d.endpoint_id
)
UPDATE endpoints e
SET next_at = greatest(now(), e.rate_limited_until), open_until = CASE WHEN open_until IS NOT NULL THEN now() END
FROM due
WHERE e.id = due.endpoint_id;
