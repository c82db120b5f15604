-- name: fan_out
-- Makes the deliveries of these events ($1, each with a traceparent, $2), due after a delay ($3, seconds), and claims
-- those that may be sent at once, up to $6, for a lease of $4 seconds. Told are the job's callback (webhook_id NULL) and
-- the tenant's subscriptions; a type has two words, so the patterns that match it are these five.
-- Events are locked, then the endpoints of those not fanned out yet, both in order of id: so two notifiers never wait for
-- each other in a circle. All else is read as it was before those locks. So an event is left as it was where an endpoint's
-- row was written meanwhile, as it is by everybody who adds to what is under way or disables a subscription; and where an
-- endpoint is missing.
-- Claimed are deliveries to healthy endpoints without a rate limit, where nothing is due and fewer than $5 are under way.
-- A crowded endpoint needs no look now: it has one when an attempt ends.
-- Returns how many were made and whether a look for them is due; and, each in a row of its own, the claims, and the
-- receivers of events that were left. At least one row.
WITH rung_for AS MATERIALIZED (
  SELECT e.id, e.tenant_id, e.job_id, e.model, e.type, e.body, e.created_at, e.fanned_out_at, t.traceparent
  FROM unnest($1::uuid[], $2::text[]) AS t(id, traceparent)
  JOIN events e ON e.id = t.id
  ORDER BY e.id
  FOR NO KEY UPDATE OF e
), open AS MATERIALIZED (
  SELECT
    id AS event_id, tenant_id, job_id, model, type, body, created_at, traceparent,
    ARRAY[type, split_part(type, '.', 1) || '.*', '*.' || split_part(type, '.', 2), '*.*', '*'] AS patterns
  FROM rung_for
  WHERE fanned_out_at IS NULL
), receivers AS MATERIALIZED (
  SELECT open.*, w.id AS webhook_id, w.id AS endpoint_id, NULL AS origin, w.url, w.secret, w.headers
  FROM open
  JOIN webhooks w ON w.tenant_id = open.tenant_id
  WHERE w.disabled_at IS NULL
    AND w.events && open.patterns
    AND (w.models IS NULL OR open.model IS NULL OR open.model = ANY(w.models))
  UNION ALL
  SELECT
    open.*, NULL, (SELECT e.id FROM endpoints e WHERE e.tenant_id = open.tenant_id AND e.origin = of.origin), of.origin,
    i.callback_url, NULL, NULL
  FROM open
  JOIN job_inputs i ON i.job_id = open.job_id
  CROSS JOIN LATERAL (SELECT lower(substring(i.callback_url FROM '^[^/]*//[^/?#]*')) AS origin) of
  WHERE i.callback_events && open.patterns
), seen AS MATERIALIZED (
  SELECT id, xmin AS version FROM endpoints WHERE id IN (SELECT endpoint_id FROM receivers)
), locked AS MATERIALIZED (
  SELECT
    e.id, e.open_until, e.paced_until, look.crowded, e.xmin <> seen.version AS written,
    $3::double precision = 0 AND $6::integer > 0 AND e.handicap = 0 AND e.rate_limit IS NULL AND NOT look.crowded
      AND (e.next_at IS NULL OR e.next_at > now()) AS ready
  FROM seen
  JOIN endpoints e ON e.id = seen.id
  CROSS JOIN LATERAL ( -- one that is crowded has a look within a lease; else another version of ours forgot to say so
    SELECT e.crowded AND coalesce(e.next_at <= now() + make_interval(secs => $4), false) AS crowded
  ) look
  ORDER BY e.id
  FOR NO KEY UPDATE OF e
), held AS MATERIALIZED (
  SELECT
    locked.*,
    CASE WHEN ready THEN
      $5::integer - (SELECT count(*) FROM deliveries d WHERE d.endpoint_id = locked.id AND d.lease_until > now())
    ELSE 0 END AS room
  FROM locked
), told AS (
  SELECT
    r.*, held.open_until, held.paced_until, held.crowded, held.room,
    bool_or(coalesce(held.written, true)) OVER (PARTITION BY r.event_id) AS is_left
  FROM receivers r
  LEFT JOIN held ON held.id = r.endpoint_id
  WHERE held.id IS NOT NULL OR r.webhook_id IS NULL -- else it was deleted just now
), turns AS (
  SELECT told.*, row_number() OVER (PARTITION BY endpoint_id, is_left ORDER BY event_id) AS turn FROM told
), new AS MATERIALIZED (
  SELECT
    turns.*,
    NOT is_left AND turn <= room
      AND row_number() OVER (ORDER BY NOT is_left AND turn <= room DESC, turn) <= $6 AS is_claimed,
    -- a UUIDv7: a random UUID with the time in front and two more bits of its version
    encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING substring(
      int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1), 52, 1), 53, 1), 'hex')::uuid AS id
  FROM turns
), added AS (
  INSERT INTO deliveries (id, event_id, tenant_id, job_id, webhook_id, url, event_type, endpoint_id, traceparent,
                          status, attempt, next_at, lease_until)
  SELECT
    id, event_id, tenant_id, job_id, webhook_id, url, type, endpoint_id, traceparent,
    'pending',
    is_claimed::integer,
    now() + make_interval(secs => CASE WHEN is_claimed THEN $4::double precision ELSE $3 END),
    CASE WHEN is_claimed THEN now() + make_interval(secs => $4) END
  FROM new
  WHERE NOT is_left
  ON CONFLICT (event_id, webhook_id) DO NOTHING
  RETURNING id, attempt
), done AS (
  UPDATE events e
  SET fanned_out_at = now()
  FROM open
  WHERE e.id = open.event_id AND e.id NOT IN (SELECT event_id FROM new WHERE is_left)
), rung AS (
  UPDATE endpoints e
  SET next_at = least(e.next_at, first.next_at)
  FROM (
    SELECT
      endpoint_id,
      min(CASE
        WHEN is_claimed THEN now() + make_interval(secs => $4)
        ELSE greatest(now() + make_interval(secs => $3), open_until, paced_until)
      END) AS next_at
    FROM new
    WHERE NOT is_left AND NOT crowded
    GROUP BY endpoint_id
  ) first
  WHERE e.id = first.endpoint_id
  RETURNING e.next_at
)
SELECT made.deliveries AS made, look.due, found.*
FROM (SELECT count(*) AS deliveries FROM added) made
CROSS JOIN (SELECT bool_or(next_at <= now()) IS TRUE AS due FROM rung) look
LEFT JOIN (
  SELECT
    new.is_left, new.origin, new.id, new.tenant_id, new.job_id, new.webhook_id, new.endpoint_id, new.type AS event_type,
    1 AS attempt, new.url, new.traceparent, new.headers, new.body,
    ARRAY[coalesce(new.secret, t.webhook_secret)] || ARRAY(
      SELECT old.secret
      FROM old_secrets old
      WHERE old.tenant_id = new.tenant_id AND old.webhook_id IS NOT DISTINCT FROM new.webhook_id AND old.until > now()
      ORDER BY old.id DESC
    ) AS secrets,
    now() AS claimed_at,
    0::double precision AS age,
    0 AS tries,
    extract(epoch FROM now() - new.created_at)::double precision AS event_age
  FROM new
  JOIN tenants t ON t.id = new.tenant_id
  WHERE new.is_left OR new.id IN (SELECT id FROM added WHERE attempt = 1)
) found ON true;

-- name: lock_events
-- Events before their endpoints, in order of id.
SELECT id FROM events WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: add_endpoints
-- The endpoints ($1) of tenants' ($2) callbacks by origin ($3), where they are new.
INSERT INTO endpoints (id, tenant_id, origin)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS t(id, tenant_id, origin) ORDER BY tenant_id, origin
ON CONFLICT (tenant_id, origin) DO NOTHING;

-- name: lock_receivers
-- Subscriptions' endpoints ($1) and those of tenants' ($2) callbacks by origin ($3), held until the transaction ends.
WITH wanted AS MATERIALIZED (
  SELECT unnest($1::uuid[]) AS id
  UNION ALL
  SELECT e.id FROM endpoints e JOIN unnest($2::uuid[], $3::text[]) AS t(tenant_id, origin) USING (tenant_id, origin)
)
SELECT id, tenant_id, origin FROM endpoints WHERE id IN (SELECT id FROM wanted) ORDER BY id FOR NO KEY UPDATE;

-- name: find_unheard
-- Events whose message was lost on its way here: nobody fanned them out for $1 seconds. Oldest first. One from the future
-- was made before the clock was set back.
WITH lost AS (
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
SELECT lost.id, coalesce(j.traceparent, lost.traceparent) AS traceparent
FROM lost
LEFT JOIN jobs j ON j.id = lost.job_id
LIMIT $2;

-- name: lock_due_endpoints
-- Endpoints with something due, the longest waiting first, held until the transaction ends. What another transaction
-- holds is left to it: it wakes its own loop where something stays due.
SELECT id FROM endpoints WHERE next_at <= now() ORDER BY next_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED;

-- name: lock_endpoints
-- Endpoints before anything is done to their deliveries, in order of id: so nobody waits for another in a circle.
SELECT id FROM endpoints WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: claim_deliveries
-- Claims up to $2 due deliveries of locked endpoints ($1) for a lease of $3 seconds, with all that sending them takes:
-- at most $4 at a time for each endpoint, half as many after each failure in a row, one where its circuit was open, and
-- a tenth of a second's worth of its rate limit. In turns: every endpoint's first comes before anybody's second.
-- `attempt` is the fence: it is raised by every claim and never lowered. A subscription's URL may have changed since.
WITH room AS (
  SELECT
    e.id, e.next_at, w.url, w.secret, w.headers,
    least(
      greatest(1, $4::integer >> least(e.handicap, 30)) - busy.attempts,
      CASE WHEN e.rate_limit IS NOT NULL THEN greatest(1, e.rate_limit / 10) END,
      $2
    ) AS size
  FROM endpoints e
  LEFT JOIN webhooks w ON w.id = e.webhook_id
  CROSS JOIN LATERAL (
    SELECT count(*) AS attempts FROM deliveries d WHERE d.endpoint_id = e.id AND d.lease_until > now()
  ) busy
  WHERE e.id = ANY($1::uuid[])
), due AS (
  SELECT d.id, room.id AS endpoint_id, room.url, room.secret, room.headers
  FROM room
  CROSS JOIN LATERAL (
    SELECT first.id, row_number() OVER (ORDER BY first.next_at) AS turn
    FROM (
      SELECT id, next_at
      FROM deliveries
      WHERE endpoint_id = room.id AND next_at <= now()
      ORDER BY next_at
      LIMIT greatest(room.size, 0)
    ) first
  ) d
  ORDER BY d.turn, room.next_at
  LIMIT $2
), paced AS (
  UPDATE endpoints e
  SET paced_until = now() + make_interval(secs => taken.attempts / e.rate_limit::double precision)
  FROM (SELECT endpoint_id, count(*) AS attempts FROM due GROUP BY endpoint_id) taken
  WHERE e.id = taken.endpoint_id AND e.rate_limit IS NOT NULL
), claimed AS (
  UPDATE deliveries d
  SET attempt = d.attempt + 1,
      next_at = now() + make_interval(secs => $3::double precision),
      lease_until = now() + make_interval(secs => $3::double precision),
      url = coalesce(due.url, d.url)
  FROM due
  WHERE d.id = due.id
  RETURNING d.id, d.event_id, d.tenant_id, d.job_id, d.webhook_id, d.endpoint_id, d.event_type, d.attempt, d.url,
            d.traceparent, d.began_at, d.tries, due.secret, due.headers
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
  extract(epoch FROM now() - c.began_at)::double precision AS age,
  c.tries,
  extract(epoch FROM now() - e.created_at)::double precision AS event_age
FROM claimed c
JOIN events e ON e.id = c.event_id
JOIN tenants t ON t.id = c.tenant_id;

-- name: settle_endpoints
-- When the next look at each of these locked endpoints ($1) is worth while: when its first delivery is due, but not
-- before its circuit and its rate limit let one through; with all that it may have ($2) under way, when the first of
-- those lapses, unless one is recorded before: where others wait for that, the endpoint is crowded. Where something is
-- due it is now, not when that was due: whoever has just had a turn goes behind those that wait for one, however old a
-- backlog is. Every row is written, so that fan_out sees that it was. Returns in how many seconds the first of these
-- looks is; NULL for none.
WITH seen AS (
  SELECT
    e.id,
    busy.attempts >= greatest(1, $2::integer >> least(e.handicap, 30)) AND first.next_at < busy.lapses AS crowded,
    CASE
      WHEN first.next_at IS NULL THEN NULL
      WHEN busy.attempts >= greatest(1, $2::integer >> least(e.handicap, 30)) THEN busy.lapses
      ELSE greatest(first.next_at, e.open_until, e.paced_until, now())
    END AS next_at
  FROM endpoints e
  LEFT JOIN LATERAL (
    SELECT d.next_at FROM deliveries d WHERE d.endpoint_id = e.id AND d.next_at IS NOT NULL ORDER BY d.next_at LIMIT 1
  ) first ON true
  CROSS JOIN LATERAL (
    SELECT count(*) AS attempts, min(d.lease_until) AS lapses
    FROM deliveries d
    WHERE d.endpoint_id = e.id AND d.lease_until > now()
  ) busy
  WHERE e.id = ANY($1::uuid[])
), settled AS (
  UPDATE endpoints e SET next_at = seen.next_at, crowded = seen.crowded IS TRUE FROM seen WHERE e.id = seen.id
)
SELECT extract(epoch FROM min(next_at) - now())::double precision AS wait FROM seen;

-- name: record_attempts
-- What attempts came to, each once and only while its claim ($2, the fence) is the last one, and what follows for their
-- endpoints ($13), which are held first. `delay` is in seconds; an attempt that does not count moves the delivery and
-- leaves no record. A failure raises the count of failures, and from $11 on opens the circuit, for as long as $12 says for
-- each further one; any success closes it. What began before the circuit opened and fails while it is open says nothing
-- new: however many were under way, one outage opens it once. What waited for room or for that has its look now; after
-- the last there is none; else `next_at` stays as it was, which is no later than the first that is due. Whether it was the
-- last is read as it was before the locks, so not where the endpoint's row was written meanwhile: then that look finds
-- nothing.
-- Only failures need settle_endpoints, and those of a subscription that was disabled meanwhile an older lock: this
-- statement would not see it.
-- Returns the ids of the deliveries that were moved and their new status, at least one row, and whether a look is due.
WITH held AS MATERIALIZED (
  SELECT id, next_at, paced_until, open_until, crowded, xmin AS version
  FROM endpoints
  WHERE id = ANY($13::uuid[])
  ORDER BY id
  FOR NO KEY UPDATE
), given AS (
  SELECT *
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::double precision[], $5::boolean[], $6::timestamptz[],
              $7::double precision[], $8::integer[], $9::text[], $10::bytea[])
    AS t(id, attempt, status, delay, counted, started_at, duration_ms, status_code, error, response)
  WHERE (SELECT count(*) FROM held) >= 0
), moved AS (
  UPDATE deliveries d
  SET (status, next_at, finished_at) = (
        SELECT
          next.status,
          CASE WHEN next.status = 'pending' THEN now() + make_interval(secs => g.delay) END,
          CASE WHEN next.status <> 'pending' THEN now() END
        FROM (
          SELECT CASE
            WHEN g.status = 'pending'
              AND EXISTS (SELECT 1 FROM webhooks w WHERE w.id = d.webhook_id AND w.disabled_at IS NOT NULL)
            THEN 'canceled'
            ELSE g.status
          END AS status
        ) next
      ),
      tries = d.tries + g.counted::integer,
      lease_until = NULL
  FROM given g
  WHERE d.id = g.id AND d.attempt = g.attempt AND d.lease_until IS NOT NULL
  RETURNING d.id, d.endpoint_id, d.attempt, d.status
), written AS (
  INSERT INTO attempts (delivery_id, number, started_at, duration_ms, status_code, error, response)
  SELECT id, g.attempt, g.started_at, g.duration_ms, g.status_code, g.error, g.response
  FROM given g
  JOIN moved USING (id, attempt)
  WHERE g.counted
), health AS (
  SELECT endpoint_id, bool_or(g.error IS NULL) AS good, count(*) FILTER (WHERE g.counted)::integer AS attempts
  FROM given g
  JOIN moved USING (id, attempt)
  GROUP BY endpoint_id
), judged AS (
  SELECT
    held.id,
    health.good,
    health.attempts,
    health.good OR health.attempts > 0 AS counts,
    held.crowded OR (health.good AND held.open_until IS NOT NULL) AS rung,
    NOT held.crowded AND held.version = seen.xmin AND health.good AND held.next_at IS NOT NULL AND NOT EXISTS (
      SELECT FROM deliveries d
      WHERE d.endpoint_id = held.id AND d.next_at IS NOT NULL AND d.id NOT IN (SELECT id FROM moved)
    ) AS was_last,
    greatest(now(), held.paced_until, CASE WHEN health.good IS NOT TRUE THEN held.open_until END) AS soonest,
    held.next_at
  FROM held
  JOIN endpoints seen ON seen.id = held.id
  LEFT JOIN health ON health.endpoint_id = held.id
), told AS (
  UPDATE endpoints e
  SET failures = CASE
        WHEN j.good THEN 0
        WHEN j.counts AND (e.open_until > now()) IS NOT TRUE
        THEN least(e.failures + j.attempts, greatest($11::integer, e.failures + 1))
        ELSE e.failures
      END,
      failing_since = CASE
        WHEN j.good THEN NULL
        WHEN j.counts THEN coalesce(e.failing_since, now())
        ELSE e.failing_since
      END,
      open_until = CASE
        WHEN j.good THEN NULL
        WHEN j.counts AND (e.open_until > now()) IS NOT TRUE AND e.failures + j.attempts >= $11 THEN now() + make_interval(
          secs => ($12::double precision[])[least(greatest(0, e.failures + 1 - $11) + 1, cardinality($12))])
        ELSE e.open_until
      END,
      next_at = CASE WHEN j.rung THEN j.soonest WHEN NOT j.was_last IS TRUE THEN e.next_at END,
      crowded = false
  FROM judged j
  WHERE e.id = j.id AND (j.rung OR j.was_last OR (j.counts AND NOT (j.good AND e.failures = 0)))
)
SELECT moved.id, moved.status, look.due
FROM (
  SELECT bool_or(CASE WHEN rung THEN soonest WHEN NOT was_last IS TRUE THEN next_at END <= now()) IS TRUE AS due FROM judged
) look
LEFT JOIN moved ON true;

-- name: disable_webhooks
-- Subscriptions that are gone ($1), and those of the endpoints ($2) that have failed for $3 seconds without a success.
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
-- What waits for these subscriptions ($1) is not sent; what is under way is recorded as it ends.
UPDATE deliveries
SET status = 'canceled', next_at = NULL, finished_at = now(), lease_until = NULL
WHERE endpoint_id = ANY($1::uuid[]) AND next_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= now());

-- name: find_exhausted
-- Deliveries ($1) as their tenant is told of them: none of operational events, which would have no end.
SELECT id, tenant_id, event_id, event_type, job_id, webhook_id, url, status, created_at, next_at, finished_at, traceparent
FROM deliveries
WHERE id = ANY($1::uuid[]) AND job_id IS NOT NULL;

-- name: add_events
-- Operational events, each with its doorbell, and the job whose webhook it tells of.
WITH new AS (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::text[],
              $6::uuid[], $7::text[], $8::text[], $9::bytea[], $10::uuid[])
    AS t(id, tenant_id, type, body, traceparent, message_id, exchange, routing_key, message, about_job_id)
), recorded AS (
  INSERT INTO events (id, tenant_id, type, body, traceparent, about_job_id)
  SELECT id, tenant_id, type, body, traceparent, about_job_id FROM new
)
INSERT INTO outbox (id, exchange, routing_key, body, traceparent)
SELECT message_id, exchange, routing_key, message, traceparent FROM new;

-- name: find_overdue
-- Deliveries that waited out a whole schedule ($1, seconds) behind an endpoint that failed all that time, up to $2:
-- behind an open circuit they have no attempts of their own to use up.
SELECT d.id, e.id AS endpoint_id
FROM endpoints e
CROSS JOIN LATERAL (
  SELECT id
  FROM deliveries
  WHERE endpoint_id = e.id
    AND next_at IS NOT NULL
    AND (lease_until IS NULL OR lease_until <= now())
    AND began_at < now() - make_interval(secs => $1::double precision)
  LIMIT $2
) d
WHERE e.open_until IS NOT NULL AND e.failing_since < now() - make_interval(secs => $1::double precision)
LIMIT $2;

-- name: exhaust_deliveries
-- Gives these deliveries ($1) of locked endpoints up, unless an attempt is under way.
UPDATE deliveries
SET status = 'exhausted', next_at = NULL, finished_at = now(), lease_until = NULL
WHERE id = ANY($1::uuid[]) AND status = 'pending' AND (lease_until IS NULL OR lease_until <= now())
RETURNING id, tenant_id, job_id, traceparent;

-- name: take_recovery
-- A recovery that may go on, held until the transaction ends; one whose subscription is disabled waits for it.
SELECT r.id, r.webhook_id, r.since, r.until, r.behind
FROM recoveries r
JOIN webhooks w ON w.id = r.webhook_id
WHERE r.next_at <= now() AND w.disabled_at IS NULL
ORDER BY r.next_at
LIMIT 1
FOR UPDATE OF r SKIP LOCKED;

-- name: count_due
-- How many deliveries of an endpoint ($1) are due, counted up to $2.
SELECT count(*) AS due
FROM (
  SELECT 1 FROM deliveries WHERE endpoint_id = $1 AND next_at <= now() LIMIT $2
) counted;

-- name: revive_deliveries
-- The next up to $7 deliveries of a locked endpoint ($1) behind an id ($2) and up to another ($3), created in a time ($4 to $5),
-- that failed: those given up begin their schedule anew, those still in it are tried now. Returns their ids.
WITH chosen AS (
  SELECT id
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
)
UPDATE deliveries d
SET status = 'pending',
    tries = CASE WHEN d.status = 'pending' THEN d.tries ELSE 0 END,
    began_at = CASE WHEN d.status = 'pending' THEN d.began_at ELSE now() END,
    next_at = least(d.next_at, now()),
    finished_at = NULL
FROM chosen
WHERE d.id = chosen.id
RETURNING d.id;

-- name: ring_endpoint
-- A look at a locked endpoint ($1) is worth while as soon as its circuit and rate limit allow it.
UPDATE endpoints SET next_at = greatest(now(), open_until, paced_until) WHERE id = $1;

-- name: advance_recovery
-- Where a recovery ($1) has come to ($2), how many more it re-sent ($3), and whether it goes on after $4 seconds (NULL: done).
UPDATE recoveries
SET behind = $2, recovered = recovered + $3, next_at = now() + make_interval(secs => $4::double precision)
WHERE id = $1;

-- name: purge_events
-- Removes up to $2 operational events older than $1 seconds, with their deliveries, but none that is still on its way.
DELETE FROM events
WHERE id IN (
  SELECT e.id
  FROM events e
  WHERE e.job_id IS NULL
    AND e.created_at < now() - make_interval(secs => $1::double precision)
    AND e.fanned_out_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = e.id AND d.status = 'pending')
  ORDER BY e.created_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)
RETURNING id;

-- name: purge_recoveries
-- Removes up to $2 recoveries that were done more than $1 seconds ago.
DELETE FROM recoveries
WHERE id IN (
  SELECT id
  FROM recoveries
  WHERE next_at IS NULL AND created_at < now() - make_interval(secs => $1::double precision)
  LIMIT $2
)
RETURNING id;

-- name: purge_secrets
-- Removes secrets that no longer sign.
DELETE FROM old_secrets WHERE until < now() RETURNING id;

-- name: purge_endpoints
-- Removes up to $1 endpoints of callbacks that have no delivery left.
DELETE FROM endpoints
WHERE id IN (
  SELECT e.id
  FROM endpoints e
  WHERE e.webhook_id IS NULL
    AND e.next_at IS NULL
    AND (SELECT d.id FROM deliveries d WHERE d.endpoint_id = e.id LIMIT 1) IS NULL
  LIMIT $1
  FOR UPDATE SKIP LOCKED
)
RETURNING id;

-- name: see_clock
-- Notes what the clock says, and returns by how many seconds that is behind the latest time noted. One at a time.
WITH before AS (
  SELECT seen FROM clock FOR UPDATE
)
UPDATE clock SET seen = clock_timestamp()
FROM before
RETURNING extract(epoch FROM before.seen - clock.seen)::double precision AS back;

-- name: lock_all_endpoints
-- As lock_endpoints does.
SELECT id FROM endpoints ORDER BY id FOR NO KEY UPDATE;

-- name: turn_back
-- Times that are waited for, on a clock that was set back by $1 seconds. A claim may have been made since: it is not moved,
-- but none may last longer than a new one ($2, seconds).
WITH waiting AS (
  UPDATE deliveries
  SET next_at = next_at - make_interval(secs => $1::double precision)
  WHERE next_at IS NOT NULL AND lease_until IS NULL
), claimed AS (
  UPDATE deliveries
  SET next_at = now() + make_interval(secs => $2::double precision),
      lease_until = now() + make_interval(secs => $2::double precision)
  WHERE lease_until > now() + make_interval(secs => $2::double precision)
), endpoint AS (
  UPDATE endpoints
  SET next_at = next_at - make_interval(secs => $1::double precision),
      open_until = open_until - make_interval(secs => $1::double precision),
      paced_until = paced_until - make_interval(secs => $1::double precision)
  WHERE next_at IS NOT NULL OR open_until IS NOT NULL OR paced_until IS NOT NULL
), recovery AS (
  UPDATE recoveries SET next_at = next_at - make_interval(secs => $1::double precision) WHERE next_at IS NOT NULL
)
UPDATE outbox SET due_at = due_at - make_interval(secs => $1::double precision);
