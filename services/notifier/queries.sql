-- name: find_receivers
-- Who is to be told of these events ($1), each as it comes: the job's callback (webhook_id NULL) and the tenant's
-- subscriptions. A type has two words, so the patterns that match it are these five. Events already fanned out are
-- left out; all are locked in order of id, so that two notifiers never wait for each other in a circle, and the
-- subscriptions so that none is deleted before its deliveries are there.
WITH locked AS MATERIALIZED (
  SELECT id, tenant_id, job_id, model, type, fanned_out_at
  FROM events
  WHERE id = ANY($1::uuid[])
  ORDER BY id
  FOR NO KEY UPDATE
), open AS (
  SELECT
    id, tenant_id, job_id, model,
    ARRAY[type, split_part(type, '.', 1) || '.*', '*.' || split_part(type, '.', 2), '*.*', '*'] AS patterns
  FROM locked
  WHERE fanned_out_at IS NULL
), subscribed AS (
  SELECT open.id AS event_id, open.tenant_id, open.job_id, w.id AS webhook_id, w.url
  FROM open
  JOIN webhooks w ON w.tenant_id = open.tenant_id
  WHERE w.events && open.patterns AND (w.models IS NULL OR open.model = ANY(w.models))
  FOR KEY SHARE OF w
)
SELECT event_id, tenant_id, job_id, webhook_id, url FROM subscribed
UNION ALL
SELECT open.id, open.tenant_id, open.job_id, NULL, i.callback_url
FROM open
JOIN job_inputs i ON i.job_id = open.job_id
WHERE i.callback_events && open.patterns;

-- name: add_deliveries
-- New deliveries, due after a delay ($8, seconds); those that exist already stay as they are.
INSERT INTO deliveries (id, event_id, tenant_id, job_id, webhook_id, url, traceparent, status, next_at)
SELECT id, event_id, tenant_id, job_id, webhook_id, url, traceparent,
       'pending', now() + make_interval(secs => $8::double precision)
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::text[])
  AS t(id, event_id, tenant_id, job_id, webhook_id, url, traceparent)
ON CONFLICT (event_id, webhook_id) DO NOTHING;

-- name: mark_fanned_out
-- These events have all their deliveries.
UPDATE events SET fanned_out_at = coalesce(fanned_out_at, now()) WHERE id = ANY($1::uuid[]);

-- name: find_unheard
-- Events whose message was lost on its way here: nobody fanned them out for $1 seconds. Oldest first.
SELECT e.id, j.traceparent
FROM events e
JOIN jobs j ON j.id = e.job_id
WHERE e.fanned_out_at IS NULL AND e.created_at < now() - make_interval(secs => $1::double precision)
ORDER BY e.created_at
LIMIT $2;

-- name: claim_deliveries
-- Claims up to $1 due deliveries (only pending ones have a next_at) for a lease of $2 seconds, with all that sending
-- them takes. `attempt` is the fence: it is raised by every claim and never lowered. `tries` counts what was recorded,
-- so a claim that lapsed because we died or could not write takes no place in the receiver's schedule. A subscription's
-- URL may have changed since.
WITH due AS (
  SELECT d.id, coalesce(w.url, d.url) AS url, w.secret, w.headers
  FROM deliveries d
  LEFT JOIN webhooks w ON w.id = d.webhook_id
  WHERE d.next_at <= now()
  ORDER BY d.next_at
  LIMIT $1
  FOR UPDATE OF d SKIP LOCKED
), claimed AS (
  UPDATE deliveries d
  SET attempt = d.attempt + 1, next_at = now() + make_interval(secs => $2::double precision), url = due.url
  FROM due
  WHERE d.id = due.id
  RETURNING d.id, d.event_id, d.tenant_id, d.job_id, d.attempt, d.url, d.traceparent, d.created_at,
            due.secret, due.headers
)
SELECT
  c.id, c.job_id, c.attempt, c.url, c.traceparent, c.headers, e.body,
  coalesce(c.secret, t.webhook_secret) AS secret,
  now() AS claimed_at,
  extract(epoch FROM now() - c.created_at)::double precision AS age,
  (SELECT count(*) FROM attempts a WHERE a.delivery_id = c.id) AS tries
FROM claimed c
JOIN events e ON e.id = c.event_id
JOIN tenants t ON t.id = c.tenant_id;

-- name: record_attempts
-- What attempts came to, each only while its claim ($2, the fence) is the last one. `delay` is in seconds; an attempt
-- that does not count moves the delivery and leaves no record. Returns the ids of the deliveries that were moved.
WITH given AS (
  SELECT *
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::double precision[], $5::boolean[], $6::timestamptz[],
              $7::double precision[], $8::integer[], $9::text[], $10::bytea[])
    AS t(id, attempt, status, delay, counted, started_at, duration_ms, status_code, error, response)
), held AS (
  SELECT d.id
  FROM deliveries d
  JOIN given g ON g.id = d.id AND g.attempt = d.attempt
  WHERE d.status = 'pending'
  ORDER BY d.id
  FOR UPDATE OF d
), moved AS (
  UPDATE deliveries d
  SET status = g.status,
      next_at = CASE WHEN g.status = 'pending' THEN now() + make_interval(secs => g.delay) END,
      finished_at = CASE WHEN g.status <> 'pending' THEN now() END
  FROM given g
  JOIN held USING (id)
  WHERE d.id = g.id AND d.attempt = g.attempt
  RETURNING d.id, d.attempt
), written AS (
  INSERT INTO attempts (delivery_id, number, started_at, duration_ms, status_code, error, response)
  SELECT id, g.attempt, g.started_at, g.duration_ms, g.status_code, g.error, g.response
  FROM given g
  JOIN moved USING (id, attempt)
  WHERE g.counted
)
SELECT id FROM moved;
