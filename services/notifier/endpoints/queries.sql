-- name: lock_endpoints
-- Lock endpoints in order of id before changing their deliveries, so transactions cannot deadlock.
SELECT id FROM endpoints WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: reschedule_endpoints
-- Set when each of these locked endpoints ($1) is checked next, with at most $2 attempts in flight.
--
-- Usually that is when its first delivery is due, but not before its circuit and its rate limit
-- allow an attempt. A full endpoint is checked when its first lease lapses: the record of an attempt
-- finds what waits before. That record may have looked just before a delivery became due, so a full
-- endpoint with due deliveries is checked again in a second. While deliveries are still to be canceled,
-- only tests and redeliveries count.
--
-- If something is due, the check is now, not when that became due. An endpoint that was just served
-- therefore queues behind the others, however old its deliveries are.
--
-- Return the seconds until the first check, or NULL for none.
WITH computed AS (
  SELECT
    e.id,
    CASE
      WHEN first.next_at IS NULL THEN NULL
      WHEN in_flight.attempts >= CASE WHEN e.open_until IS NULL THEN greatest(1, $2::integer >> least(e.failures, 30)) ELSE 1 END
      THEN least(in_flight.lapse_at, CASE WHEN first.next_at <= now() THEN now() + interval '1 second' END)
      ELSE greatest(first.next_at, e.open_until, e.rate_limited_until, now())
    END AS next_at
  FROM endpoints e
  LEFT JOIN LATERAL (
    SELECT d.next_at
    FROM live_deliveries d
    WHERE d.endpoint_id = e.id
      AND d.next_at <= CASE WHEN e.cancel_before IS NULL THEN 'infinity' ELSE to_timestamp(0) END
      AND (d.schedule_started_at < e.cancel_before) IS NOT TRUE
    ORDER BY d.next_at
    LIMIT 1
  ) first ON true
  CROSS JOIN LATERAL (
    SELECT count(*) AS attempts, min(d.lease_until) AS lapse_at
    FROM live_deliveries d
    WHERE d.endpoint_id = e.id AND d.lease_until > now()
  ) in_flight
  WHERE e.id = ANY($1::uuid[])
), changed AS (
  UPDATE endpoints e
  SET next_at = computed.next_at
  FROM computed
  WHERE e.id = computed.id AND e.next_at IS DISTINCT FROM computed.next_at
)
SELECT extract(epoch FROM min(next_at) - now())::double precision AS wait FROM computed;

-- name: make_endpoint_due
-- Check a locked endpoint ($1) as soon as its circuit and rate limit allow.
UPDATE endpoints SET next_at = greatest(now(), open_until, rate_limited_until) WHERE id = $1;
