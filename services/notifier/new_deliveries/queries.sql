-- name: claim_new
-- Claim up to $5 new deliveries of events ($1, with traceparents $2) for $3 seconds. Look at $6 of each
-- event. Stop after $10 bytes of bodies. Return everything that sending them needs, the number of new
-- deliveries found, and the most of one event. There is at least one row.
--
-- Tenants take turns. A tenant gets $7 at most, or its number of $9 if it is one of $8.
--
-- A delivery is claimed if its endpoint is in direct_endpoints, which may have $4 in flight. If it has half of that,
-- deliveries may wait for the end of an attempt, and come first. The count is of the start of the statement:
-- two notifiers may together claim a few more.
--
-- Wait for no lock. Whoever holds a delivery takes it. Whoever holds an endpoint computes its next
-- check. An endpoint is written only if its next check is later than the end of the lease.
WITH new AS MATERIALIZED (
  SELECT d.id, d.endpoint_id, d.tenant_id, t.*, octet_length(e.body) AS bytes
  FROM unnest($1::uuid[], $2::text[]) AS t(event_id, traceparent)
  CROSS JOIN LATERAL (
    SELECT id, endpoint_id, tenant_id
    FROM live_deliveries
    WHERE event_id = t.event_id AND next_at IS NULL
    LIMIT $6
    FOR NO KEY UPDATE SKIP LOCKED
  ) d
  JOIN events e ON e.id = t.event_id
), rooms AS MATERIALIZED (
  SELECT id, url, $4::integer - in_flight AS size
  FROM direct_endpoints
  WHERE id IN (SELECT endpoint_id FROM new) AND CASE WHEN in_flight >= $4 / 2 THEN first_due END IS NULL
), turns AS (
  SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY rank, id) AS turn
  FROM (
    SELECT new.*, rooms.size, rooms.url, row_number() OVER (PARTITION BY endpoint_id ORDER BY new.id) AS rank
    FROM new
    JOIN rooms ON rooms.id = new.endpoint_id
  ) ranked
  WHERE rank <= size
), chosen AS MATERIALIZED (
  SELECT *
  FROM (
    SELECT turns.*, sum(bytes) OVER (ORDER BY turn, id) - bytes AS bytes_before
    FROM turns
    LEFT JOIN unnest($8::uuid[], $9::integer[]) AS own(tenant_id, room) USING (tenant_id)
    WHERE turn <= coalesce(own.room, $7::integer)
    ORDER BY turn, id
    LIMIT $5
  ) first
  WHERE bytes_before < $10::bigint
), claimed AS (
  UPDATE live_deliveries d
  SET attempt = d.attempt + 1,
      next_at = now() + make_interval(secs => $3::double precision),
      lease_until = now() + make_interval(secs => $3),
      url = coalesce(chosen.url, d.url),
      traceparent = chosen.traceparent
  FROM chosen
  WHERE d.id = chosen.id
  RETURNING d.id, d.attempt, d.traceparent
), checked AS (
  UPDATE endpoints SET next_at = now() + make_interval(secs => $3)
  WHERE id IN (
    SELECT id
    FROM endpoints
    WHERE id IN (SELECT endpoint_id FROM chosen) AND (next_at <= now() + make_interval(secs => $3)) IS NOT TRUE
    FOR NO KEY UPDATE SKIP LOCKED
  )
)
SELECT found.*, claimed.attempt, claimed.traceparent, r.*
FROM (
  SELECT coalesce(sum(count), 0) AS found, coalesce(max(count), 0) AS most
  FROM (SELECT count(*) FROM new GROUP BY event_id) counted
) found
LEFT JOIN (claimed JOIN delivery_requests r USING (id)) ON true;

-- name: schedule_new
-- Schedule up to $5 new deliveries of each of these events ($1, with traceparents $2) after $3 seconds.
-- Cancel those of disabled subscriptions. Make sure that each endpoint is checked within $4 seconds, or
-- when its circuit closes. Wait for no lock. Return the endpoints, whose exact next check is still to be
-- computed, and the events that may have more new deliveries, each with its tenant.
WITH new AS MATERIALIZED (
  SELECT d.id, d.tenant_id, w.disabled_at IS NOT NULL AS disabled, t.*
  FROM unnest($1::uuid[], $2::text[]) AS t(event_id, traceparent)
  CROSS JOIN LATERAL (
    SELECT id, webhook_id, tenant_id
    FROM live_deliveries
    WHERE event_id = t.event_id AND next_at IS NULL
    LIMIT $5
    FOR NO KEY UPDATE SKIP LOCKED
  ) d
  LEFT JOIN webhooks w ON w.id = d.webhook_id
), scheduled AS (
  UPDATE deliveries d
  SET status = CASE WHEN disabled THEN 'canceled' ELSE 'pending' END,
      next_at = CASE WHEN NOT disabled THEN now() + make_interval(secs => $3::double precision) END,
      finished_at = CASE WHEN disabled THEN now() END,
      generation = CASE WHEN disabled THEN event_generation ELSE 0 END,
      traceparent = new.traceparent
  FROM new
  WHERE d.id = new.id AND d.generation = 0
  RETURNING d.endpoint_id
), checked AS (
  UPDATE endpoints SET next_at = greatest(now() + make_interval(secs => $4::double precision), open_until)
  WHERE id IN (
    SELECT id
    FROM endpoints
    WHERE id IN (SELECT endpoint_id FROM scheduled)
      AND (next_at <= greatest(now() + make_interval(secs => $4), open_until)) IS NOT TRUE
    FOR NO KEY UPDATE SKIP LOCKED
  )
)
SELECT DISTINCT endpoint_id, NULL::uuid AS event_id, NULL::uuid AS tenant_id FROM scheduled
UNION ALL
SELECT NULL, event_id, tenant_id FROM new GROUP BY event_id, tenant_id HAVING count(*) = $5;

-- name: find_new
-- Find up to $2 deliveries that nobody has taken for $1 seconds: their message was lost. A delivery from
-- the future was created before the clock was set back. Tenants take turns, so one with many delays
-- no other.
SELECT event_id, traceparent
FROM (
  SELECT d.*, row_number() OVER (PARTITION BY oldest.tenant_id ORDER BY d.created_at) AS turn
  FROM oldest_new_deliveries oldest
  CROSS JOIN LATERAL (
    SELECT event_id, traceparent, created_at
    FROM live_deliveries
    WHERE tenant_id = oldest.tenant_id
      AND status = 'pending'
      AND next_at IS NULL
      AND created_at NOT BETWEEN now() - make_interval(secs => $1::double precision) AND now() + make_interval(secs => $1)
    ORDER BY created_at
    LIMIT $2
  ) d
) found
ORDER BY turn, created_at
LIMIT $2;

-- name: check_missed_endpoints
-- Correct the next check of each endpoint that has deliveries and is not checked within $1 seconds of the
-- first: a notifier died after it took the delivery and before it computed the check. Skip endpoints
-- that are locked. Return their ids.
WITH RECURSIVE first AS (
  (
    SELECT endpoint_id, next_at
    FROM live_deliveries
    WHERE next_at IS NOT NULL AND endpoint_id > '00000000-0000-0000-0000-000000000000'
    ORDER BY endpoint_id, next_at
    LIMIT 1
  )
  UNION ALL
  SELECT later.*
  FROM first
  CROSS JOIN LATERAL (
    SELECT d.endpoint_id, d.next_at
    FROM live_deliveries d
    WHERE d.next_at IS NOT NULL AND d.endpoint_id > first.endpoint_id
    ORDER BY d.endpoint_id, d.next_at
    LIMIT 1
  ) later
), missed AS (
  SELECT e.id, greatest(first.next_at, e.open_until, e.rate_limited_until) AS next_at
  FROM first
  JOIN endpoints e ON e.id = first.endpoint_id
  WHERE e.cancel_before IS NULL AND (
    e.next_at <= greatest(first.next_at, e.open_until, now()) + make_interval(secs => $1::double precision)
  ) IS NOT TRUE
  FOR NO KEY UPDATE OF e SKIP LOCKED
)
UPDATE endpoints e SET next_at = missed.next_at FROM missed WHERE e.id = missed.id RETURNING e.id;
