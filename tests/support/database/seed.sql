-- name: add_subscribers
-- Tenants ($1), each with one subscription ($2) to a URL ($3); $4 is every secret, encrypted.
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
-- Events ($1) of jobs ($2) of tenants ($3), as a dispatcher leaves them: each job ended well, no delivery was taken.
WITH new AS (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bytea[], $5::text[]) AS t(id, job_id, tenant_id, body, traceparent)
), job AS (
  INSERT INTO jobs (id, tenant_id, model, priority, status, attempt, max_attempts, started_at, finished_at, generation,
                    timeout, initial_delay, max_delay, inference_ms, traceparent, tensors)
  SELECT job_id, tenant_id, 'echo', 'normal', 'succeeded', 1, 3, now(), now(), current_generation(), 60, 1, 60, 1,
         traceparent, ''
  FROM new
)
INSERT INTO events (id, tenant_id, job_id, model, type, body, traceparent)
SELECT id, tenant_id, job_id, 'echo', 'job.succeeded', body, traceparent FROM new;

-- name: add_pending
-- Schedule the new deliveries of a subscription's ($1) events ($2) after a delay ($3, seconds), as a notifier does that
-- cannot send them. Return each event with its delivery.
WITH due AS (
  UPDATE endpoints SET next_at = least(next_at, now() + make_interval(secs => $3::double precision)) WHERE id = $1
)
UPDATE live_deliveries
SET next_at = now() + make_interval(secs => $3::double precision), traceparent = ''
WHERE event_id = ANY($2::uuid[]) AND endpoint_id = $1
RETURNING id, event_id;

-- name: fill_ended
-- Ended jobs number $1 to $2 of $3, with their inputs, outputs, attempts, events and deliveries, as a tenant ($4) would
-- have left them: spread evenly over the last $5 seconds and seven generations, ids in order of time. Payloads are small, so
-- that rows count.
WITH new AS MATERIALIZED (
  SELECT
    at, number % 50 = 0 AS bad,
    (stamp || '7000800' || tail)::uuid AS job_id,
    (stamp || '7000801' || tail)::uuid AS event_id,
    '00-' || md5(number::text) || '-b7ad6b7169203331-01' AS traceparent, 1 + (number - 1) * 7 / $3 AS generation
  FROM (
    SELECT
      number, at,
      lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS stamp,
      lpad(to_hex(number), 13, '0') AS tail
    FROM (
      SELECT number, now() - make_interval(secs => $5::double precision * ($3::bigint - number) / $3) AS at
      FROM generate_series($1::bigint, $2::bigint) number
    ) spread
  ) named
), jobs AS (
  INSERT INTO jobs (id, tenant_id, model, version, priority, status, attempt, max_attempts, claim, created_at, run_at,
                    started_at, finished_at, generation, timeout, initial_delay, max_delay, error_code, error_message,
                    error_retryable, inference_ms, traceparent, worker, tensors, callback_url, callback_events, outputs)
  SELECT job_id, $4::uuid, 'echo', '1', 'normal', CASE WHEN bad THEN 'failed' ELSE 'succeeded' END, 1, 3, 1, at, at,
         at, at, generation, 600, 1, 300, CASE WHEN bad THEN 'invalid_input' END, CASE WHEN bad THEN 'it was bad' END,
         CASE WHEN bad THEN false END, 3, traceparent, 'worker', '\x00000000', 'https://receiver.example/',
         '{job.succeeded,job.failed}', CASE WHEN NOT bad THEN '[]'::bytea END
  FROM new
), new_events AS (
  INSERT INTO events (id, generation, tenant_id, job_id, model, type, created_at, body, traceparent)
  SELECT event_id, generation, $4, job_id, 'echo', CASE WHEN bad THEN 'job.failed' ELSE 'job.succeeded' END, at, '{}',
         traceparent
  FROM new
), endpoint AS (
  INSERT INTO endpoints (id, tenant_id, origin) VALUES ($4, $4, 'https://receiver.example') ON CONFLICT DO NOTHING
), delivered AS (
  INSERT INTO deliveries (id, event_id, event_generation, event_type, tenant_id, job_id, endpoint_id, url, status, attempt,
                          tries, traceparent, created_at, schedule_started_at, finished_at, generation, started_at,
                          duration_ms, status_code, response)
  SELECT derive_id(event_id, $4), event_id, generation, 'job.succeeded', $4, job_id, $4, 'https://receiver.example/',
         'succeeded', 1 + bad::integer, 1 + bad::integer, traceparent, at, at, at, generation, at, 10, 204, ''
  FROM new
)
INSERT INTO attempts (delivery_id, generation, number, started_at, duration_ms, status_code, error, response)
SELECT derive_id(event_id, $4), generation, 1, at, 10, 500, 'http_status', '' FROM new WHERE bad;
