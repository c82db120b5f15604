-- name: add_webhook
-- Adds a subscription and its endpoint.
WITH added AS (
  INSERT INTO webhooks (id, tenant_id, url, events, models, description, headers, signing, secret, format)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $12)
  RETURNING *
), endpoint AS (
  INSERT INTO endpoints (id, tenant_id, webhook_id, rate_limit, ordered) SELECT id, tenant_id, id, $10, $11 FROM added
)
SELECT
  id, url, events, models, description, headers, signing, secret, created_at, disabled_at, disabled_reason, format,
  $10::integer AS rate_limit, $11::boolean AS ordered
FROM added;

-- name: count_webhooks
-- Counts the subscriptions of a tenant ($1).
SELECT count(*) AS webhooks FROM webhooks WHERE tenant_id = $1;

-- name: list_webhooks
-- Returns a page of a tenant's ($1) subscriptions after an id ($2), oldest first.
SELECT
  w.id, w.url, w.events, w.models, w.description, w.headers, w.signing, w.secret, w.created_at, w.disabled_at,
  w.disabled_reason, w.format, e.rate_limit, e.ordered
FROM webhooks w
JOIN endpoints e ON e.id = w.id
WHERE w.tenant_id = $1 AND ($2::uuid IS NULL OR w.id > $2)
ORDER BY w.id
LIMIT $3;

-- name: find_webhook
-- Returns a tenant's ($2) subscription ($1).
SELECT
  w.id, w.url, w.events, w.models, w.description, w.headers, w.signing, w.secret, w.created_at, w.disabled_at,
  w.disabled_reason, w.format, e.rate_limit, e.ordered
FROM webhooks w
JOIN endpoints e ON e.id = w.id
WHERE w.id = $1 AND w.tenant_id = $2;

-- name: lock_webhook
-- Locks a tenant's ($2) subscription ($1) through its endpoint. Read the row with the next statement: after a wait, this
-- one would still return the old values.
SELECT 1 FROM endpoints WHERE id = $1 AND tenant_id = $2 FOR NO KEY UPDATE;

-- name: update_webhook
-- Writes a locked subscription ($1). A new URL is a new receiver, so it resets the endpoint's health.
WITH before AS (
  SELECT url FROM webhooks WHERE id = $1
), changed AS (
  UPDATE webhooks SET url = $2, events = $3, models = $4, description = $5, headers = $6 WHERE id = $1
)
UPDATE endpoints e
SET rate_limit = $7,
    ordered = $8,
    rate_limited_until = NULL,
    failures = CASE WHEN before.url = $2 THEN failures ELSE 0 END,
    failing_since = CASE WHEN before.url = $2 THEN failing_since END,
    open_until = CASE WHEN before.url = $2 THEN open_until END,
    next_at = CASE WHEN next_at IS NOT NULL THEN now() END
FROM before
WHERE e.id = $1;

-- name: release_blocked
-- Makes up to $2 deliveries of a locked subscription ($1) due that wait for earlier events of their jobs. Skips those that
-- another transaction has locked.
WITH blocked AS MATERIALIZED (
  SELECT id
  FROM live_deliveries
  WHERE endpoint_id = $1
    AND next_at > now()
    AND tries = 0
    AND (lease_until > now()) IS NOT TRUE
    AND blocked_until(event_id, endpoint_id) IS NOT NULL
  ORDER BY next_at
  LIMIT $2
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE live_deliveries d SET next_at = now() FROM blocked WHERE d.id = blocked.id;

-- name: release_endpoint
-- Separates the endpoint of a locked subscription ($1) from it. Nothing more is sent. A notifier deletes the deliveries,
-- and then the endpoint.
UPDATE endpoints SET webhook_id = NULL, cancel_before = 'infinity', next_at = NULL WHERE id = $1;

-- name: delete_webhook
-- Deletes a subscription ($1) whose endpoint is separate.
DELETE FROM webhooks WHERE id = $1;

-- name: disable_webhook
-- Disables a locked subscription ($1) that is enabled. A notifier cancels its waiting deliveries, as after a 410. Returns
-- when.
WITH disabled AS (
  UPDATE webhooks SET disabled_at = now(), disabled_reason = 'manual' WHERE id = $1 AND disabled_at IS NULL
  RETURNING id, disabled_at
), canceling AS (
  UPDATE endpoints e SET cancel_before = clock_timestamp() FROM disabled WHERE e.id = disabled.id
)
SELECT disabled_at FROM disabled;

-- name: enable_webhook
-- Enables a locked subscription ($1), and resets its endpoint's health.
WITH enabled AS (
  UPDATE webhooks SET disabled_at = NULL, disabled_reason = NULL WHERE id = $1
)
UPDATE endpoints
SET failures = 0, failing_since = NULL, open_until = NULL, next_at = CASE WHEN next_at IS NOT NULL THEN now() END
WHERE id = $1;

-- name: set_webhook_secret
-- Writes the secret ($2) of a locked subscription ($1).
UPDATE webhooks SET secret = $2 WHERE id = $1;

-- name: find_tenant_secret
-- Returns the secret of a tenant ($1).
SELECT webhook_secret AS secret FROM tenants WHERE id = $1;

-- name: lock_tenant_secret
-- Locks a tenant ($1), and returns its secret.
SELECT webhook_secret AS secret FROM tenants WHERE id = $1 FOR NO KEY UPDATE;

-- name: set_tenant_secret
-- Writes the secret ($2) of a locked tenant ($1).
UPDATE tenants SET webhook_secret = $2 WHERE id = $1;

-- name: count_old_secrets
-- Counts the old secrets that still sign: of a tenant's ($1) subscription ($2), or of the tenant itself (NULL).
SELECT count(*) AS secrets
FROM old_secrets
WHERE tenant_id = $1 AND webhook_id IS NOT DISTINCT FROM $2 AND until > now();

-- name: keep_old_secret
-- Lets a replaced secret ($4) sign for $5 more seconds.
INSERT INTO old_secrets (id, tenant_id, webhook_id, secret, until)
VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5::double precision))
RETURNING until;

-- name: end_old_secrets
-- Deletes the old secrets that count_old_secrets counts.
DELETE FROM old_secrets WHERE tenant_id = $1 AND webhook_id IS NOT DISTINCT FROM $2;

-- name: add_test
-- Adds a test event ($2) for a locked subscription ($1). It is due before all other deliveries, even if the circuit is
-- open, but the rate limit still applies. Its schedule begins now, not with the transaction: if the subscription was
-- disabled in between, the test is not canceled with the rest. Returns the id of its delivery.
WITH event AS (
  INSERT INTO events (id, tenant_id, type, body, traceparent) VALUES ($2, $3, 'webhook.test', $4, $5)
), delivery AS (
  INSERT INTO live_deliveries (id, event_id, event_generation, tenant_id, webhook_id, url, event_type, endpoint_id,
                               traceparent, next_at, schedule_started_at)
  SELECT derive_id($2, w.id), $2, current_generation(), $3, w.id, w.url, 'webhook.test', w.id, $5, to_timestamp(0), clock_timestamp()
  FROM webhooks w
  WHERE w.id = $1
  RETURNING id
), due AS (
  UPDATE endpoints
  SET next_at = greatest(now(), rate_limited_until), open_until = CASE WHEN open_until IS NOT NULL THEN now() END
  WHERE id = $1
)
SELECT id FROM delivery;

-- name: add_recovery
-- Adds a recovery ($1) of a locked subscription ($2) for a period ($3 to $4, or to now).
INSERT INTO recoveries (id, webhook_id, since, until)
VALUES ($1, $2, $3, coalesce($4, greatest(now(), $3::timestamptz + interval '1 millisecond')))
RETURNING id, webhook_id, since, until, recovered, next_at IS NULL AS done, created_at;

-- name: find_recovery
-- Returns a recovery ($1) of a tenant's ($3) subscription ($2).
SELECT r.id, r.webhook_id, r.since, r.until, r.recovered, r.next_at IS NULL AS done, r.created_at
FROM recoveries r
JOIN webhooks w ON w.id = r.webhook_id
WHERE r.id = $1 AND r.webhook_id = $2 AND w.tenant_id = $3;
