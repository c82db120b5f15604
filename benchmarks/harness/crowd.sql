-- name: add_tenants
-- Tenants ($1) that nobody has keys of.
INSERT INTO tenants (id, name, webhook_secret)
SELECT gen_random_uuid(), 'crowd-' || number, '' FROM generate_series(1, $1::integer) number;

-- name: add_jobs
-- Jobs that wait for a model ($2), with inputs ($3): as many ($1) for each of the tenants whose names are like $4.
INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay, traceparent,
                  tensors)
SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(row_number() OVER ()), 12, '0'))::uuid, t.id, $2::text, 'normal',
       'queued', 1, 600, 1, 300, '', $3::bytea
FROM tenants t CROSS JOIN generate_series(1, $1::integer)
WHERE t.name LIKE $4::text;

-- name: remove_jobs
-- All jobs of a model ($1) of these tenants, and what they left.
WITH gone AS (
  DELETE FROM jobs WHERE model = $1 AND tenant_id IN (SELECT id FROM tenants WHERE name LIKE 'crowd-%') RETURNING id
)
DELETE FROM events WHERE job_id IN (SELECT id FROM gone);

-- name: add_subscriptions
-- Subscriptions to all events, as many ($1) for each of these tenants.
WITH new AS (
  INSERT INTO webhooks (id, tenant_id, url, events, signing, secret)
  SELECT gen_random_uuid(), t.id, 'http://127.0.0.1:9/', '{job.*}', 'hmac', ''
  FROM tenants t CROSS JOIN generate_series(1, $1::integer)
  WHERE t.name LIKE 'crowd-%'
  RETURNING id, tenant_id
)
INSERT INTO endpoints (id, tenant_id, webhook_id) SELECT id, tenant_id, id FROM new;

-- name: remove_subscriptions
DELETE FROM webhooks WHERE tenant_id IN (SELECT id FROM tenants WHERE name LIKE 'crowd-%');

-- name: add_dispatcher
-- Another dispatcher that lives for an hour.
INSERT INTO dispatchers (worker, seen_at) VALUES ('crowd', now() + interval '1 hour');

-- name: add_models
-- Its models ($1), which declare what `echo` declares.
INSERT INTO served_models (name, version, worker, ready, decoupled, max_batch_size, instances, slots, inputs, outputs,
                           updated_at)
SELECT 'crowd_' || number, version, 'crowd', true, decoupled, max_batch_size, instances, slots, inputs, outputs,
       now() + interval '1 hour'
FROM served_models CROSS JOIN generate_series(1, $1::integer) number
WHERE name = 'echo';

-- name: remove_models
DELETE FROM served_models WHERE worker = 'crowd';

-- name: remove_dispatcher
DELETE FROM dispatchers WHERE worker = 'crowd';
