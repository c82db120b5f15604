-- name: record_successes
-- Record successful attempts whose endpoints are healthy and not ordered: nothing else changes. An attempt is recorded
-- once, and only if its claim ($2, the fence) is the latest.
--
-- Return the ids, and whether other deliveries may have waited for the end of the attempt: its endpoint
-- had half of $7 in flight, and has due deliveries.
WITH recorded AS (
  UPDATE deliveries d
  SET status = 'succeeded', tries = d.tries + 1, next_at = NULL, lease_until = NULL, finished_at = now(),
      generation = d.event_generation,
      started_at = r.started_at, duration_ms = r.duration_ms, status_code = r.status_code, response = r.response
  FROM unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::double precision[], $5::integer[], $6::bytea[])
    AS r(id, attempt, started_at, duration_ms, status_code, response)
  WHERE d.id = r.id AND d.generation = 0 AND d.attempt = r.attempt AND d.lease_until IS NOT NULL
    AND (SELECT e.failures = 0 AND NOT e.ordered FROM endpoints e WHERE e.id = d.endpoint_id)
  RETURNING d.id, d.endpoint_id
), waiting AS (
  SELECT endpoint_id AS id
  FROM (SELECT DISTINCT endpoint_id FROM recorded) ended
  WHERE CASE WHEN (
    SELECT count(*) FROM live_deliveries d WHERE d.endpoint_id = ended.endpoint_id AND d.lease_until > now()
  ) >= $7::integer / 2 THEN (
    SELECT d.id FROM live_deliveries d WHERE d.endpoint_id = ended.endpoint_id AND d.next_at <= now() LIMIT 1
  ) END IS NOT NULL
)
SELECT recorded.id, recorded.endpoint_id IN (SELECT id FROM waiting) AS has_waiting FROM recorded;

-- name: record_attempts
-- Record any results of attempts, with their endpoints locked. A result is recorded once, and only if
-- its claim ($2, the fence) is the latest. `delay` is in seconds. An attempt that does not count
-- reschedules the delivery and leaves no record.
--
-- The attempt that ends a delivery is recorded in its row, an earlier one in `attempts`. A delivery
-- that would go on is canceled if its subscription was disabled. One of a deleted subscription is
-- left alone. One that failed at a URL ($11) that its subscription has no longer goes to the new URL at once.
--
-- Return the id and new status of each delivery that changed, and whether the attempt was for a former URL.
WITH results AS ( -- one for each delivery: two of one claim would be half of each
  SELECT DISTINCT ON (id) *
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::double precision[], $5::boolean[], $6::timestamptz[],
              $7::double precision[], $8::integer[], $9::text[], $10::bytea[], $11::text[])
    AS t(id, attempt, status, delay, counted, started_at, duration_ms, status_code, error, response, url)
  ORDER BY id, attempt DESC
), decided AS (
  SELECT
    r.*, former.url AS has_former_url, next.status AS next_status,
    r.counted AND next.status = 'pending' AS goes_on,
    r.counted AND next.status <> 'pending' AS ends
  FROM results r
  JOIN live_deliveries d ON d.id = r.id
  JOIN endpoints e ON e.id = d.endpoint_id AND e.cancel_before IS DISTINCT FROM 'infinity'
  LEFT JOIN webhooks w ON w.id = d.webhook_id
  CROSS JOIN LATERAL (SELECT coalesce(w.url <> r.url, false) AS url) former
  CROSS JOIN LATERAL (
    SELECT CASE
      WHEN r.status = 'succeeded' OR r.status = 'exhausted' AND NOT former.url THEN r.status
      WHEN w.disabled_at IS NOT NULL THEN 'canceled'
      ELSE 'pending'
    END AS status
  ) next
), changed AS (
  UPDATE deliveries d
  SET status = r.next_status,
      next_at = CASE WHEN r.next_status = 'pending' THEN
        CASE WHEN r.has_former_url THEN now() ELSE now() + make_interval(secs => r.delay) END
      END,
      finished_at = CASE WHEN r.next_status <> 'pending' THEN now() END,
      generation = CASE WHEN r.next_status <> 'pending' THEN d.event_generation ELSE 0 END,
      tries = d.tries + r.counted::integer,
      lease_until = NULL,
      started_at = CASE WHEN r.ends THEN r.started_at END,
      duration_ms = CASE WHEN r.ends THEN r.duration_ms END,
      status_code = CASE WHEN r.ends THEN r.status_code END,
      error = CASE WHEN r.ends THEN r.error END,
      response = CASE WHEN r.ends THEN r.response END
  FROM decided r
  WHERE d.id = r.id AND d.generation = 0 AND d.attempt = r.attempt AND d.lease_until IS NOT NULL
  RETURNING d.id, d.status, r.has_former_url
), kept AS (
  INSERT INTO attempts (delivery_id, number, started_at, duration_ms, status_code, error, response)
  SELECT r.id, r.attempt, r.started_at, r.duration_ms, r.status_code, r.error, r.response
  FROM decided r
  JOIN changed USING (id)
  WHERE r.goes_on
)
SELECT id, status, has_former_url FROM changed;

-- name: release_blocked
-- Make due what waited for the end of these deliveries ($1): those of later events of their jobs to the
-- same ordered endpoints, unless they failed before or are being sent.
UPDATE live_deliveries d
SET next_at = now()
FROM deliveries ended
JOIN endpoints ON endpoints.id = ended.endpoint_id AND endpoints.ordered
JOIN events e ON e.id = ended.event_id
JOIN events later ON later.job_id = e.job_id AND later.sequence > e.sequence
WHERE ended.id = ANY($1::uuid[])
  AND d.id = derive_id(later.id, ended.endpoint_id)
  AND d.next_at > now()
  AND d.tries = 0
  AND (d.lease_until > now()) IS NOT TRUE;

-- name: update_health
-- Update the health of locked endpoints ($1) after attempts: whether one succeeded ($2), and how many
-- counted ($3).
--
-- Failures raise the failure count. From $4 on, the circuit opens for the seconds in $5, one step per
-- further failure. A success closes it. A failure while the circuit is open changes nothing, so one
-- outage opens it once. The first failures of a healthy endpoint do not open it, however many there
-- are: its successes are recorded apart, so some may have come between them.
UPDATE endpoints e
SET failures = CASE
      WHEN t.succeeded THEN 0
      WHEN is_open THEN e.failures
      ELSE next_failures
    END,
    failing_since = CASE WHEN NOT t.succeeded THEN coalesce(e.failing_since, now()) END,
    open_until = CASE
      WHEN t.succeeded THEN NULL
      WHEN is_open OR next_failures < $4 THEN e.open_until
      ELSE now() + make_interval(secs => ($5::double precision[])[least(next_failures - $4 + 1, cardinality($5))])
    END
FROM endpoints before
JOIN unnest($1::uuid[], $2::boolean[], $3::integer[]) AS t(id, succeeded, attempts) USING (id),
  LATERAL (SELECT coalesce(before.open_until > now(), false)) AS open(is_open),
  LATERAL (
    SELECT CASE before.failures
      WHEN 0 THEN least(t.attempts, $4::integer - 1)
      ELSE least(before.failures + t.attempts, greatest($4, before.failures + 1))
    END
  ) AS next(next_failures)
WHERE e.id = before.id AND NOT (t.succeeded AND e.failures = 0);

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

-- name: begin_canceling
-- Let a notifier cancel the waiting deliveries of these disabled subscriptions ($1), whose endpoints
-- are locked. Attempts in flight are recorded when they end. New deliveries are canceled when a notifier
-- takes them.
UPDATE endpoints SET cancel_before = clock_timestamp() WHERE id = ANY($1::uuid[]);
