-- name: has_due_endpoints
-- Returns whether any endpoint has due deliveries.
SELECT EXISTS (SELECT FROM endpoints WHERE next_at <= now()) AS found;

-- name: lock_due_endpoints
-- Lock up to $1 endpoints with due deliveries until the transaction ends, the longest waiting first.
-- Skip those of tenants that have no room ($2). Skip endpoints that another transaction has locked: it
-- wakes its own worker if something stays due.
SELECT id, ordered
FROM endpoints
WHERE next_at <= now() AND tenant_id <> ALL($2::uuid[])
ORDER BY next_at
LIMIT $1
FOR NO KEY UPDATE SKIP LOCKED;

-- name: lock_endpoints_if_free
-- Lock those of these endpoints ($1) that no other transaction has locked. Return each that exists, and
-- whether it was locked.
WITH locked AS MATERIALIZED (
  SELECT id FROM endpoints WHERE id = ANY($1::uuid[]) FOR NO KEY UPDATE SKIP LOCKED
)
SELECT e.id, e.ordered, locked.id IS NOT NULL AS locked FROM endpoints e LEFT JOIN locked USING (id) WHERE e.id = ANY($1);

-- name: postpone_blocked
-- Let due deliveries of these locked, ordered endpoints ($1) wait if an earlier event of their job is not done:
-- $2 seconds longer than the next attempt at that one. Look at $3 of each endpoint. The end of the
-- earlier delivery makes them due at once.
UPDATE live_deliveries d
SET next_at = greatest(due.blocked_until, now()) + make_interval(secs => $2::double precision)
FROM (
  SELECT first.id, blocked_until(first.event_id, e.id)
  FROM endpoints e
  CROSS JOIN LATERAL (
    SELECT id, event_id FROM live_deliveries WHERE endpoint_id = e.id AND next_at <= now() ORDER BY next_at LIMIT $3
  ) first
  WHERE e.id = ANY($1::uuid[])
) due
WHERE d.id = due.id AND due.blocked_until IS NOT NULL;

-- name: claim_deliveries
-- Claim up to $2 due deliveries of locked endpoints ($1) for $3 seconds.
-- Return everything that sending them needs.
--
-- An endpoint may have $4 in flight, half as many after each failure in a row, and one if its
-- circuit was open. A rate limit allows a tenth of a second's worth. Tenants take turns, and so do
-- the endpoints of a tenant: the first delivery of each comes before the second of any. A tenant
-- gets $5 at most, or its number of $7 if it is one of $6. The claim stops after $8 bytes of bodies.
-- An ordered endpoint may get fewer, if some wait for earlier events. While deliveries of an endpoint
-- are still to be canceled, it gets only tests and redeliveries.
--
-- `attempt` is the fence: every claim raises it and nothing lowers it.
WITH rooms AS (
  SELECT e.id, e.tenant_id, e.next_at, e.cancel_before, e.ordered,
    least(
      CASE WHEN e.open_until IS NULL THEN greatest(1, $4::integer >> least(e.failures, 30)) ELSE 1 END - in_flight.attempts,
      CASE WHEN e.rate_limit > 0 THEN greatest(1, e.rate_limit / 10) END,
      $2
    ) AS size
  FROM endpoints e
  CROSS JOIN LATERAL (
    SELECT count(*) AS attempts FROM live_deliveries d WHERE d.endpoint_id = e.id AND d.lease_until > now()
  ) in_flight
  WHERE e.id = ANY($1::uuid[]) AND (greatest(e.open_until, e.rate_limited_until) > now()) IS NOT TRUE
), turns AS (
  SELECT
    d.id, d.event_id, rooms.id AS endpoint_id, rooms.tenant_id, rooms.next_at,
    row_number() OVER (PARTITION BY rooms.tenant_id ORDER BY d.rank, rooms.next_at) AS turn
  FROM rooms
  CROSS JOIN LATERAL (
    SELECT looked_at.*, row_number() OVER (ORDER BY next_at) AS rank
    FROM (
      SELECT id, event_id, next_at
      FROM live_deliveries
      WHERE endpoint_id = rooms.id
        AND next_at <= CASE WHEN rooms.cancel_before IS NULL THEN now() ELSE to_timestamp(0) END
        AND (schedule_started_at < rooms.cancel_before) IS NOT TRUE
      ORDER BY next_at
      LIMIT greatest(rooms.size, 0)
    ) looked_at
    WHERE NOT rooms.ordered OR blocked_until(event_id, rooms.id) IS NULL
  ) d
), first AS (
  SELECT turns.*
  FROM turns
  LEFT JOIN unnest($6::uuid[], $7::integer[]) AS own(tenant_id, room) USING (tenant_id)
  WHERE turn <= coalesce(own.room, $5::integer)
  ORDER BY turn, next_at
  LIMIT $2
), due AS MATERIALIZED (
  SELECT id, endpoint_id
  FROM (
    SELECT first.*, sum(octet_length(e.body)) OVER (ORDER BY turn, next_at, first.id) - octet_length(e.body) AS before
    FROM first JOIN events e ON e.id = first.event_id
  ) sized
  WHERE before < $8::bigint -- bytes
), rate_limited AS (
  UPDATE endpoints e
  SET rate_limited_until = now() + make_interval(secs => counted.claims / e.rate_limit::double precision)
  FROM (SELECT endpoint_id, count(*) AS claims FROM due GROUP BY endpoint_id) counted
  WHERE e.id = counted.endpoint_id AND e.rate_limit > 0
), claimed AS (
  UPDATE live_deliveries d
  SET attempt = d.attempt + 1,
      next_at = now() + make_interval(secs => $3::double precision), lease_until = now() + make_interval(secs => $3),
      url = coalesce((SELECT w.url FROM webhooks w WHERE w.id = d.webhook_id), d.url)
  FROM due
  WHERE d.id = due.id AND d.next_at <= now() -- a late record may have ended it meanwhile
  RETURNING d.id, d.attempt, d.traceparent
)
SELECT
  r.id, r.tenant_id, r.job_id, r.webhook_id, r.endpoint_id, r.event_type, claimed.attempt, r.url, claimed.traceparent,
  r.headers, r.body, r.secrets, r.claimed_at, r.age, r.tries, r.event_age
FROM claimed
JOIN delivery_requests r USING (id);
