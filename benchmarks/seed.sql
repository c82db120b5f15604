-- name: add_subscribers
-- Tenants ($1), each with one subscription ($2) to a URL ($3); $4 is every secret, sealed.
WITH new AS (
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS t(tenant_id, webhook_id, url)
), tenant AS (
  INSERT INTO tenants (id, name, webhook_secret) SELECT tenant_id, tenant_id::text, $4::bytea FROM new
), webhook AS (
  INSERT INTO webhooks (id, tenant_id, url, events, signing, secret)
  SELECT webhook_id, tenant_id, url, '{job.*}', 'hmac', $4::bytea FROM new
)
INSERT INTO endpoints (id, tenant_id, webhook_id) SELECT webhook_id, tenant_id, webhook_id FROM new;

-- name: add_events
-- Events ($1) of jobs ($2) of tenants ($3), as a dispatcher leaves them: each job ended well, nothing fanned out.
WITH new AS (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bytea[], $5::text[]) AS t(id, job_id, tenant_id, body, traceparent)
), job AS (
  INSERT INTO jobs (id, tenant_id, model, priority, status, attempt, max_attempts, started_at, finished_at, timeout,
                    initial_delay, max_delay, inference_ms, traceparent)
  SELECT job_id, tenant_id, 'echo', 'normal', 'succeeded', 1, 3, now(), now(), 60, 1, 60, 1, traceparent FROM new
), input AS (
  INSERT INTO job_inputs (job_id, tensors) SELECT job_id, '' FROM new
)
INSERT INTO events (id, tenant_id, job_id, model, type, body)
SELECT id, tenant_id, job_id, 'echo', 'job.succeeded', body FROM new;

-- name: add_pending
-- Deliveries ($1) of a subscription's ($2) events ($3), due after a delay ($4, seconds), as the fan-out leaves them.
WITH fanned AS (
  UPDATE events SET fanned_out_at = now() WHERE id = ANY($3::uuid[])
), rung AS (
  UPDATE endpoints SET next_at = least(next_at, now() + make_interval(secs => $4::double precision)) WHERE id = $2
)
INSERT INTO deliveries (id, event_id, tenant_id, job_id, webhook_id, url, event_type, endpoint_id, traceparent, status,
                        next_at)
SELECT new.id, e.id, e.tenant_id, e.job_id, w.id, w.url, e.type, w.id, '', 'pending',
       now() + make_interval(secs => $4::double precision)
FROM unnest($1::uuid[], $3::uuid[]) AS new(id, event_id)
JOIN events e ON e.id = new.event_id
JOIN webhooks w ON w.id = $2::uuid;

-- name: count_states
-- How many events ($1) there are, and how many were delivered, and how many of these by the first attempt.
SELECT
  count(*) AS events,
  count(*) FILTER (WHERE d.status = 'succeeded') AS succeeded,
  count(*) FILTER (WHERE d.status = 'succeeded' AND d.attempt = 1) AS at_once
FROM unnest($1::uuid[]) AS wanted(id)
LEFT JOIN deliveries d ON d.event_id = wanted.id;

-- name: delete_subscription
-- With its deliveries.
DELETE FROM webhooks WHERE id = $1;
