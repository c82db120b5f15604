-- name: lock_due_endpoints
-- Lock up to $1 endpoints with due deliveries until the transaction ends, the longest waiting first.
-- Skip endpoints that another transaction has locked: it wakes its own worker if something stays due.
SELECT id FROM endpoints WHERE next_at <= now() ORDER BY next_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED;

-- name: claim_deliveries
-- Claim up to $2 due deliveries of locked endpoints ($1) for $3 seconds.
-- Return everything that sending them needs.
--
-- An endpoint may have $4 in flight, half as many after each failure in a row, and one if its
-- circuit was open. A rate limit allows a tenth of a second's worth. Endpoints take turns: the
-- first delivery of each comes before the second of any.
--
-- `attempt` is the fence: every claim raises it and nothing lowers it. The URL comes from the
-- subscription, which may have changed since the delivery was created.
WITH rooms AS (
  SELECT
    e.id, e.next_at, w.url, w.secret, w.headers,
    least(
      greatest(1, $4::integer >> least(e.backoff_level, 30)) - in_flight.attempts,
      CASE WHEN e.rate_limit IS NOT NULL THEN greatest(1, e.rate_limit / 10) END,
      $2
    ) AS size
  FROM endpoints e
  LEFT JOIN webhooks w ON w.id = e.webhook_id
  CROSS JOIN LATERAL (
    SELECT count(*) AS attempts FROM deliveries d WHERE d.endpoint_id = e.id AND d.lease_until > now()
  ) in_flight
  WHERE e.id = ANY($1::uuid[])
), due AS (
  SELECT d.id, rooms.id AS endpoint_id, rooms.url, rooms.secret, rooms.headers
  FROM rooms
  CROSS JOIN LATERAL (
    SELECT first.id, row_number() OVER (ORDER BY first.next_at) AS rank
    FROM (
      SELECT id, next_at
      FROM deliveries
      WHERE endpoint_id = rooms.id AND next_at <= now()
      ORDER BY next_at
      LIMIT greatest(rooms.size, 0)
    ) first
  ) d
  ORDER BY d.rank, rooms.next_at
  LIMIT $2
), rate_limited AS (
  UPDATE endpoints e
  SET rate_limited_until = now() + make_interval(secs => counted.claims / e.rate_limit::double precision)
  FROM (SELECT endpoint_id, count(*) AS claims FROM due GROUP BY endpoint_id) counted
  WHERE e.id = counted.endpoint_id AND e.rate_limit IS NOT NULL
), claimed AS (
  UPDATE deliveries d
  SET attempt = d.attempt + 1,
      next_at = now() + make_interval(secs => $3::double precision),
      lease_until = now() + make_interval(secs => $3::double precision),
      url = coalesce(due.url, d.url)
  FROM due
  WHERE d.id = due.id
  RETURNING d.id, d.event_id, d.tenant_id, d.job_id, d.webhook_id, d.endpoint_id, d.event_type, d.attempt, d.url,
            d.traceparent, d.schedule_started_at, d.tries, due.secret, due.headers
)
SELECT
  c.id, c.tenant_id, c.job_id, c.webhook_id, c.endpoint_id, c.event_type, c.attempt, c.url, c.traceparent, c.headers, e.body,
  ARRAY[coalesce(c.secret, t.webhook_secret)] || ARRAY(
    SELECT old.secret
    FROM old_secrets old
    WHERE old.tenant_id = c.tenant_id AND old.webhook_id IS NOT DISTINCT FROM c.webhook_id AND old.until > now()
    ORDER BY old.id DESC
  ) AS secrets,
  now() AS claimed_at,
  extract(epoch FROM now() - c.schedule_started_at)::double precision AS age,
  c.tries,
  extract(epoch FROM now() - e.created_at)::double precision AS event_age
FROM claimed c
JOIN events e ON e.id = c.event_id
JOIN tenants t ON t.id = c.tenant_id;
