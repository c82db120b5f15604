-- name: add_webhook
-- A subscription with its endpoint.
WITH added AS (
  INSERT INTO webhooks (id, tenant_id, url, events, models, description, headers, signing, secret)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
  RETURNING *
), endpoint AS (
  INSERT INTO endpoints (id, tenant_id, webhook_id, rate_limit) SELECT id, tenant_id, id, $10 FROM added
)
SELECT *, $10::integer AS rate_limit FROM added;

-- name: list_webhooks
-- A page of a tenant's subscriptions, oldest first, from behind an id.
SELECT w.*, e.rate_limit
FROM webhooks w
JOIN endpoints e ON e.id = w.id
WHERE w.tenant_id = $1 AND ($2::uuid IS NULL OR w.id > $2)
ORDER BY w.id
LIMIT $3;

-- name: find_webhook
SELECT w.*, e.rate_limit FROM webhooks w JOIN endpoints e ON e.id = w.id WHERE w.id = $1 AND w.tenant_id = $2;

-- name: lock_webhook
-- A tenant's subscription is held, by way of its endpoint, until the transaction ends. It is read by the next statement:
-- this one, having waited, would still show it as it was before.
SELECT 1 FROM endpoints WHERE id = $1 AND tenant_id = $2 FOR NO KEY UPDATE;

-- name: update_webhook
-- A locked subscription ($1) as it is to be. A new URL is a new receiver: nothing is known of its health.
WITH before AS (
  SELECT url FROM webhooks WHERE id = $1
), changed AS (
  UPDATE webhooks SET url = $2, events = $3, models = $4, description = $5, headers = $6 WHERE id = $1
)
UPDATE endpoints e
SET rate_limit = $7,
    paced_until = NULL,
    failures = CASE WHEN before.url = $2 THEN failures ELSE 0 END,
    failing_since = CASE WHEN before.url = $2 THEN failing_since END,
    open_until = CASE WHEN before.url = $2 THEN open_until END,
    next_at = CASE WHEN next_at IS NOT NULL THEN now() END
FROM before
WHERE e.id = $1;

-- name: delete_webhook
-- A locked subscription, with its deliveries.
DELETE FROM webhooks WHERE id = $1;

-- name: enable_webhook
-- A locked subscription is sent to again, and nothing is held against it.
WITH enabled AS (
  UPDATE webhooks SET disabled_at = NULL, disabled_reason = NULL WHERE id = $1
)
UPDATE endpoints
SET failures = 0, failing_since = NULL, open_until = NULL, next_at = CASE WHEN next_at IS NOT NULL THEN now() END
WHERE id = $1;

-- name: set_webhook_secret
-- A locked subscription's ($1) new secret ($2).
UPDATE webhooks SET secret = $2 WHERE id = $1;

-- name: find_tenant_secret
SELECT webhook_secret AS secret FROM tenants WHERE id = $1;

-- name: lock_tenant_secret
SELECT webhook_secret AS secret FROM tenants WHERE id = $1 FOR NO KEY UPDATE;

-- name: set_tenant_secret
UPDATE tenants SET webhook_secret = $2 WHERE id = $1;

-- name: count_old_secrets
-- How many secrets of a tenant ($1), of its subscription ($2) or its own (NULL), still sign beside the newest.
SELECT count(*) AS secrets
FROM old_secrets
WHERE tenant_id = $1 AND webhook_id IS NOT DISTINCT FROM $2 AND until > now();

-- name: keep_old_secret
-- The secret that was replaced goes on signing for a while ($5, seconds).
INSERT INTO old_secrets (id, tenant_id, webhook_id, secret, until)
VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5::double precision))
RETURNING until;

-- name: end_old_secrets
-- Of those that count_old_secrets counts, none signs any more.
DELETE FROM old_secrets WHERE tenant_id = $1 AND webhook_id IS NOT DISTINCT FROM $2;

-- name: add_test
-- A test event ($2) for a locked subscription ($1) alone, due before everything else, also where its circuit is open: as
-- soon as the rate limit allows.
WITH event AS (
  INSERT INTO events (id, tenant_id, type, body, traceparent, fanned_out_at)
  VALUES ($2, $3, 'webhook.test', $4, $5, now())
), delivery AS (
  INSERT INTO deliveries (id, event_id, tenant_id, webhook_id, url, event_type, endpoint_id, traceparent, status,
                          next_at)
  SELECT $6, $2, $3, w.id, w.url, 'webhook.test', w.id, $5, 'pending', to_timestamp(0) FROM webhooks w WHERE w.id = $1
)
UPDATE endpoints
SET next_at = greatest(now(), paced_until), open_until = CASE WHEN open_until IS NOT NULL THEN now() END
WHERE id = $1;

-- name: add_recovery
INSERT INTO recoveries (id, webhook_id, since, until)
VALUES ($1, $2, $3, coalesce($4, greatest(now(), $3::timestamptz + interval '1 millisecond')))
RETURNING id, webhook_id, since, until, recovered, next_at IS NULL AS done;

-- name: find_recovery
SELECT r.id, r.webhook_id, r.since, r.until, r.recovered, r.next_at IS NULL AS done
FROM recoveries r
JOIN webhooks w ON w.id = r.webhook_id
WHERE r.id = $1 AND r.webhook_id = $2 AND w.tenant_id = $3;

-- name: list_webhook_deliveries
-- A page of the deliveries to a tenant's subscription ($2), newest first, from before an id ($3), with a status ($4), of a
-- type ($5), created in a time ($6 to $7).
SELECT *
FROM deliveries
WHERE tenant_id = $1
  AND endpoint_id = $2
  AND ($3::uuid IS NULL OR id < $3)
  AND ($4::text IS NULL OR status = $4)
  AND ($5::text IS NULL OR event_type = $5)
  AND ($6::timestamptz IS NULL OR created_at >= $6)
  AND ($7::timestamptz IS NULL OR created_at < $7)
ORDER BY id DESC
LIMIT $8;

-- name: list_job_deliveries
-- A page of the deliveries for a tenant's job ($2), newest first, from before an id ($3), with a status ($4).
SELECT *
FROM deliveries
WHERE tenant_id = $1
  AND job_id = $2
  AND ($3::uuid IS NULL OR id < $3)
  AND ($4::text IS NULL OR status = $4)
ORDER BY id DESC
LIMIT $5;

-- name: find_delivery
SELECT * FROM deliveries WHERE id = $1 AND tenant_id = $2;

-- name: lock_delivery
-- A tenant's delivery is held, by way of its endpoint, until the transaction ends; as above, the next statement reads.
SELECT 1
FROM deliveries d
JOIN endpoints e ON e.id = d.endpoint_id
WHERE d.id = $1 AND d.tenant_id = $2
FOR NO KEY UPDATE OF e;

-- name: find_locked_delivery
-- Whether a tenant's delivery is to a disabled subscription, and whose it is.
SELECT w.disabled_at IS NOT NULL AS disabled, d.job_id, d.traceparent
FROM deliveries d
LEFT JOIN webhooks w ON w.id = d.webhook_id
WHERE d.id = $1 AND d.tenant_id = $2;

-- name: redeliver
-- A delivery of a locked endpoint is due now, before all others, as soon as the rate limit allows, and its schedule begins
-- anew unless it is in it; nothing where an attempt is under way.
WITH due AS (
  UPDATE deliveries
  SET status = 'pending',
      tries = CASE WHEN status = 'pending' THEN tries ELSE 0 END,
      began_at = CASE WHEN status = 'pending' THEN began_at ELSE now() END,
      next_at = to_timestamp(0),
      finished_at = NULL
  WHERE id = $1 AND (lease_until IS NULL OR lease_until <= now())
  RETURNING endpoint_id
)
UPDATE endpoints e
SET next_at = greatest(now(), e.paced_until), open_until = CASE WHEN open_until IS NOT NULL THEN now() END
FROM due
WHERE e.id = due.endpoint_id;
