-- name: record_attempts
-- Record the results of attempts, and update the health of their endpoints ($13), which are locked
-- first.
--
-- A result is recorded once, and only if its claim ($2, the fence) is the latest. `delay` is in
-- seconds. An attempt that does not count reschedules the delivery and leaves no record.
--
-- A failure raises the failure count. From $11 failures on, the circuit opens for the seconds in
-- $12, one step per further failure. A success closes it. A failure while the circuit is open
-- changes nothing, so one outage opens it once.
--
-- An endpoint with a backlog, or one that was blocked, is checked now. After its last delivery it
-- is not checked again. Otherwise `next_at` stays: it is no later than the first due delivery.
-- "Last" is read as it was before the locks. If the endpoint's row was written meanwhile, the check
-- stays and finds nothing.
--
-- Only failures need reschedule_endpoints. Failures of a subscription that may be disabled
-- meanwhile need an earlier lock, because this statement would not see the change.
--
-- Return the id and new status of each delivery that changed, and whether a check is due.
-- There is at least one row.
WITH locked AS MATERIALIZED (
  SELECT id, next_at, rate_limited_until, open_until, has_backlog, xmin AS version
  FROM endpoints
  WHERE id = ANY($13::uuid[])
  ORDER BY id
  FOR NO KEY UPDATE
), results AS (
  SELECT *
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::double precision[], $5::boolean[], $6::timestamptz[],
              $7::double precision[], $8::integer[], $9::text[], $10::bytea[])
    AS t(id, attempt, status, delay, counted, started_at, duration_ms, status_code, error, response)
  WHERE (SELECT count(*) FROM locked) >= 0
), changed AS (
  UPDATE deliveries d
  SET (status, next_at, finished_at) = (
        SELECT
          next.status,
          CASE WHEN next.status = 'pending' THEN now() + make_interval(secs => r.delay) END,
          CASE WHEN next.status <> 'pending' THEN now() END
        FROM (
          SELECT CASE
            WHEN r.status = 'pending'
              AND EXISTS (SELECT 1 FROM webhooks w WHERE w.id = d.webhook_id AND w.disabled_at IS NOT NULL)
            THEN 'canceled'
            ELSE r.status
          END AS status
        ) next
      ),
      tries = d.tries + r.counted::integer,
      lease_until = NULL
  FROM results r
  WHERE d.id = r.id AND d.attempt = r.attempt AND d.lease_until IS NOT NULL
  RETURNING d.id, d.endpoint_id, d.attempt, d.status
), inserted AS (
  INSERT INTO attempts (delivery_id, number, started_at, duration_ms, status_code, error, response)
  SELECT id, r.attempt, r.started_at, r.duration_ms, r.status_code, r.error, r.response
  FROM results r
  JOIN changed USING (id, attempt)
  WHERE r.counted
), outcomes AS (
  SELECT endpoint_id, bool_or(r.error IS NULL) AS succeeded, count(*) FILTER (WHERE r.counted)::integer AS attempts
  FROM results r
  JOIN changed USING (id, attempt)
  GROUP BY endpoint_id
), decided AS (
  SELECT
    locked.id,
    outcomes.succeeded,
    outcomes.attempts,
    outcomes.succeeded OR outcomes.attempts > 0 AS counts,
    locked.has_backlog OR (outcomes.succeeded AND locked.open_until IS NOT NULL) AS check_now,
    NOT locked.has_backlog AND locked.version = e.xmin AND outcomes.succeeded AND locked.next_at IS NOT NULL AND NOT EXISTS (
      SELECT FROM deliveries d
      WHERE d.endpoint_id = locked.id AND d.next_at IS NOT NULL AND d.id NOT IN (SELECT id FROM changed)
    ) AS was_last,
    greatest(now(), locked.rate_limited_until, CASE WHEN outcomes.succeeded IS NOT TRUE THEN locked.open_until END) AS earliest,
    locked.next_at
  FROM locked
  JOIN endpoints e ON e.id = locked.id
  LEFT JOIN outcomes ON outcomes.endpoint_id = locked.id
), updated AS (
  UPDATE endpoints e
  SET failures = CASE
        WHEN x.succeeded THEN 0
        WHEN x.counts AND (e.open_until > now()) IS NOT TRUE
        THEN least(e.failures + x.attempts, greatest($11::integer, e.failures + 1))
        ELSE e.failures
      END,
      failing_since = CASE
        WHEN x.succeeded THEN NULL
        WHEN x.counts THEN coalesce(e.failing_since, now())
        ELSE e.failing_since
      END,
      open_until = CASE
        WHEN x.succeeded THEN NULL
        WHEN x.counts AND (e.open_until > now()) IS NOT TRUE AND e.failures + x.attempts >= $11 THEN now() + make_interval(
          secs => ($12::double precision[])[least(greatest(0, e.failures + 1 - $11) + 1, cardinality($12))])
        ELSE e.open_until
      END,
      next_at = CASE WHEN x.check_now THEN x.earliest WHEN NOT x.was_last IS TRUE THEN e.next_at END,
      has_backlog = false
  FROM decided x
  WHERE e.id = x.id AND (x.check_now OR x.was_last OR (x.counts AND NOT (x.succeeded AND e.failures = 0)))
)
SELECT changed.id, changed.status, checks.due
FROM (
  SELECT
    bool_or(CASE WHEN check_now THEN earliest WHEN NOT was_last IS TRUE THEN next_at END <= now()) IS TRUE AS due
  FROM decided
) checks
LEFT JOIN changed ON true;

-- name: disable_webhooks
-- Disable these subscriptions ($1, reason `gone`), and those of endpoints ($2) that have failed for
-- $3 seconds without a success (reason `failing`).
WITH chosen AS (
  SELECT unnest($1::uuid[]) AS id, 'gone' AS reason
  UNION ALL
  SELECT e.webhook_id, 'failing'
  FROM endpoints e
  WHERE e.id = ANY($2::uuid[])
    AND e.webhook_id <> ALL($1::uuid[])
    AND e.failing_since < now() - make_interval(secs => $3::double precision)
)
UPDATE webhooks w SET disabled_at = now(), disabled_reason = chosen.reason
FROM chosen
WHERE w.id = chosen.id AND w.disabled_at IS NULL
RETURNING w.id, w.tenant_id, w.url, w.description, w.disabled_at, w.disabled_reason;

-- name: cancel_pending
-- Cancel the waiting deliveries of these subscriptions ($1). Attempts in flight are recorded when
-- they end.
UPDATE deliveries
SET status = 'canceled', next_at = NULL, finished_at = now(), lease_until = NULL
WHERE endpoint_id = ANY($1::uuid[]) AND next_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= now());
