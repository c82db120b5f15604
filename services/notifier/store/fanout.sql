-- name: fan_out
-- Create the deliveries of events ($1, with traceparents $2), due after $3 seconds.
-- Claim up to $6 of them for $4 seconds.
--
-- The receivers are the job's callback (webhook_id NULL) and the tenant's matching subscriptions.
-- An event type has two words, so five patterns can match it.
--
-- Locks the events, then the endpoints, both in order of id, so two notifiers cannot deadlock.
-- Other rows are read as they were before the locks. An event is therefore deferred if one of its
-- endpoints was written meanwhile, or is missing. Every claim and every disabled subscription
-- writes the endpoint's row.
--
-- A delivery is claimed if its endpoint is healthy, has no rate limit, has nothing due and has
-- fewer than $5 in flight. An endpoint with a backlog needs no new check: it is checked when an
-- attempt ends.
--
-- Return the number of deliveries and whether an endpoint is due now. Also return each claim and
-- each receiver of a deferred event, one per row. There is at least one row.
WITH locked_events AS MATERIALIZED (
  SELECT e.id, e.tenant_id, e.job_id, e.model, e.type, e.body, e.created_at, e.fanned_out_at, t.traceparent
  FROM unnest($1::uuid[], $2::text[]) AS t(id, traceparent)
  JOIN events e ON e.id = t.id
  ORDER BY e.id
  FOR NO KEY UPDATE OF e
), new_events AS MATERIALIZED (
  SELECT
    id AS event_id, tenant_id, job_id, model, type, body, created_at, traceparent,
    ARRAY[type, split_part(type, '.', 1) || '.*', '*.' || split_part(type, '.', 2), '*.*', '*'] AS patterns
  FROM locked_events
  WHERE fanned_out_at IS NULL
), receivers AS MATERIALIZED (
  SELECT n.*, w.id AS webhook_id, w.id AS endpoint_id, NULL AS origin, w.url, w.secret, w.headers
  FROM new_events n
  JOIN webhooks w ON w.tenant_id = n.tenant_id
  WHERE w.disabled_at IS NULL
    AND w.events && n.patterns
    AND (w.models IS NULL OR n.model IS NULL OR n.model = ANY(w.models))
  UNION ALL
  SELECT
    n.*, NULL, (SELECT e.id FROM endpoints e WHERE e.tenant_id = n.tenant_id AND e.origin = callback.origin),
    callback.origin, i.callback_url, NULL, NULL
  FROM new_events n
  JOIN job_inputs i ON i.job_id = n.job_id
  CROSS JOIN LATERAL (SELECT lower(substring(i.callback_url FROM '^[^/]*//[^/?#]*')) AS origin) callback
  WHERE i.callback_events && n.patterns
), versions AS MATERIALIZED (
  SELECT id, xmin AS version FROM endpoints WHERE id IN (SELECT endpoint_id FROM receivers)
), locked_endpoints AS MATERIALIZED (
  SELECT
    e.id, e.open_until, e.rate_limited_until, checked.has_backlog, e.xmin <> versions.version AS changed,
    $3::double precision = 0 AND $6::integer > 0 AND e.backoff_level = 0 AND e.rate_limit IS NULL AND NOT checked.has_backlog
      AND (e.next_at IS NULL OR e.next_at > now()) AS claimable
  FROM versions
  JOIN endpoints e ON e.id = versions.id
  CROSS JOIN LATERAL ( -- a backlog is checked within a lease; otherwise an older version left the flag
    SELECT e.has_backlog AND coalesce(e.next_at <= now() + make_interval(secs => $4), false) AS has_backlog
  ) checked
  ORDER BY e.id
  FOR NO KEY UPDATE OF e
), rooms AS MATERIALIZED (
  SELECT
    locked_endpoints.*,
    CASE WHEN claimable THEN
      $5::integer - (SELECT count(*) FROM deliveries d WHERE d.endpoint_id = locked_endpoints.id AND d.lease_until > now())
    ELSE 0 END AS room
  FROM locked_endpoints
), targets AS (
  SELECT
    r.*, rooms.open_until, rooms.rate_limited_until, rooms.has_backlog, rooms.room,
    bool_or(coalesce(rooms.changed, true)) OVER (PARTITION BY r.event_id) AS is_deferred
  FROM receivers r
  LEFT JOIN rooms ON rooms.id = r.endpoint_id
  WHERE rooms.id IS NOT NULL OR r.webhook_id IS NULL -- otherwise the subscription was just deleted
), ranked AS (
  SELECT targets.*, row_number() OVER (PARTITION BY endpoint_id, is_deferred ORDER BY event_id) AS rank FROM targets
), planned AS MATERIALIZED (
  SELECT
    ranked.*,
    NOT is_deferred AND rank <= room
      AND row_number() OVER (ORDER BY NOT is_deferred AND rank <= room DESC, rank) <= $6 AS is_claimed,
    -- a UUIDv7: a random UUID with the time in front and two more bits for its version
    encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING substring(
      int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1), 52, 1), 53, 1), 'hex')::uuid AS id
  FROM ranked
), inserted AS (
  INSERT INTO deliveries (id, event_id, tenant_id, job_id, webhook_id, url, event_type, endpoint_id, traceparent,
                          status, attempt, next_at, lease_until)
  SELECT
    id, event_id, tenant_id, job_id, webhook_id, url, type, endpoint_id, traceparent,
    'pending',
    is_claimed::integer,
    now() + make_interval(secs => CASE WHEN is_claimed THEN $4::double precision ELSE $3 END),
    CASE WHEN is_claimed THEN now() + make_interval(secs => $4) END
  FROM planned
  WHERE NOT is_deferred
  ON CONFLICT (event_id, webhook_id) DO NOTHING
  RETURNING id, attempt
), fanned_out AS (
  UPDATE events e
  SET fanned_out_at = now()
  FROM new_events n
  WHERE e.id = n.event_id AND e.id NOT IN (SELECT event_id FROM planned WHERE is_deferred)
), rescheduled AS (
  UPDATE endpoints e
  SET next_at = least(e.next_at, first.next_at)
  FROM (
    SELECT
      endpoint_id,
      min(CASE
        WHEN is_claimed THEN now() + make_interval(secs => $4)
        ELSE greatest(now() + make_interval(secs => $3), open_until, rate_limited_until)
      END) AS next_at
    FROM planned
    WHERE NOT is_deferred AND NOT has_backlog
    GROUP BY endpoint_id
  ) first
  WHERE e.id = first.endpoint_id
  RETURNING e.next_at
)
SELECT total.deliveries, checks.due, found.*
FROM (SELECT count(*) AS deliveries FROM inserted) total
CROSS JOIN (SELECT bool_or(next_at <= now()) IS TRUE AS due FROM rescheduled) checks
LEFT JOIN (
  SELECT
    p.is_deferred, p.origin, p.id, p.tenant_id, p.job_id, p.webhook_id, p.endpoint_id, p.type AS event_type,
    1 AS attempt, p.url, p.traceparent, p.headers, p.body,
    ARRAY[coalesce(p.secret, t.webhook_secret)] || ARRAY(
      SELECT old.secret
      FROM old_secrets old
      WHERE old.tenant_id = p.tenant_id AND old.webhook_id IS NOT DISTINCT FROM p.webhook_id AND old.until > now()
      ORDER BY old.id DESC
    ) AS secrets,
    now() AS claimed_at,
    0::double precision AS age,
    0 AS tries,
    extract(epoch FROM now() - p.created_at)::double precision AS event_age
  FROM planned p
  JOIN tenants t ON t.id = p.tenant_id
  WHERE p.is_deferred OR p.id IN (SELECT id FROM inserted WHERE attempt = 1)
) found ON true;

-- name: lock_events
-- Lock events before their endpoints, in order of id.
SELECT id FROM events WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: add_endpoints
-- Add missing endpoints: new ids ($1), tenants ($2) and callback origins ($3).
INSERT INTO endpoints (id, tenant_id, origin)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS t(id, tenant_id, origin) ORDER BY tenant_id, origin
ON CONFLICT (tenant_id, origin) DO NOTHING;

-- name: lock_receivers
-- Lock the endpoints of subscriptions ($1) and of callbacks (tenants $2, origins $3) until the
-- transaction ends.
WITH chosen AS MATERIALIZED (
  SELECT unnest($1::uuid[]) AS id
  UNION ALL
  SELECT e.id FROM endpoints e JOIN unnest($2::uuid[], $3::text[]) AS t(tenant_id, origin) USING (tenant_id, origin)
)
SELECT id, tenant_id, origin FROM endpoints WHERE id IN (SELECT id FROM chosen) ORDER BY id FOR NO KEY UPDATE;

-- name: find_missed_events
-- Find up to $2 events that nobody has fanned out for $1 seconds, oldest first: their message was
-- lost. An event with a time in the future was created before the clock was set back.
WITH missed AS (
  (
    SELECT id, job_id, traceparent
    FROM events
    WHERE fanned_out_at IS NULL AND created_at < now() - make_interval(secs => $1::double precision)
    ORDER BY created_at
    LIMIT $2
  )
  UNION ALL
  (
    SELECT id, job_id, traceparent
    FROM events
    WHERE fanned_out_at IS NULL AND created_at > now() + make_interval(secs => $1::double precision)
    ORDER BY created_at
    LIMIT $2
  )
)
SELECT missed.id, coalesce(j.traceparent, missed.traceparent) AS traceparent
FROM missed
LEFT JOIN jobs j ON j.id = missed.job_id
LIMIT $2;
