-- name: record_events
-- Events without a change of state, each with its doorbell; none of jobs that were erased meanwhile.
WITH given AS (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::bytea[],
              $8::uuid[], $9::text[], $10::text[], $11::bytea[], $12::text[])
    AS t(id, tenant_id, job_id, model, type, created_at, body,
         message_id, exchange, routing_key, message, traceparent)
), there AS ( -- held as the reference holds them, so that the erasure comes before or after
  SELECT id FROM jobs WHERE id = ANY($3::uuid[]) AND erased_at IS NULL ORDER BY id FOR KEY SHARE
), new AS (
  SELECT given.* FROM given JOIN there ON there.id = given.job_id
), recorded AS (
  INSERT INTO events (id, tenant_id, job_id, model, type, created_at, body)
  SELECT id, tenant_id, job_id, model, type, created_at, body FROM new
)
INSERT INTO outbox (id, exchange, routing_key, body, traceparent)
SELECT message_id, exchange, routing_key, message, traceparent FROM new;

-- name: end_jobs
-- Ends jobs, each only if it still is queued or running, as the caller says (was), and under the claim that the caller
-- knows; with the end go its outputs, its attempt, its event and the event's doorbell. A job being canceled is running:
-- whichever comes first decides; but only a job being canceled can be canceled. Returns the ids of the events of those
-- that were.
WITH done AS (
  SELECT *
  FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::boolean[],
              $9::double precision[], $10::timestamptz[], $11::bytea[],
              $12::uuid[], $13::text[], $14::bytea[],
              $15::uuid[], $16::text[], $17::text[], $18::bytea[], $19::text[])
    AS t(id, claim, was, status, version, error_code, error_message, error_retryable,
         inference_ms, finished_at, outputs,
         event_id, event_type, event_body,
         message_id, exchange, routing_key, message, traceparent)
  ORDER BY id
), locked AS (
  SELECT done.event_id, j.worker, j.started_at
  FROM jobs j
  JOIN done ON j.id = done.id AND j.claim = done.claim
    AND done.was = CASE WHEN j.lease_until IS NOT NULL THEN 'running' ELSE j.status END
    AND (done.status <> 'canceled' OR j.status = 'canceling')
  ORDER BY j.id
  FOR UPDATE OF j
), chosen AS ( -- the first, where a job ends twice in one call: a lapsed one by its sweeper and by its dispatcher
  SELECT DISTINCT ON (done.id) done.*, worker, started_at
  FROM done
  JOIN locked USING (event_id)
  ORDER BY done.id, event_id
), ended AS (
  UPDATE jobs j
  SET status = chosen.status,
      version = coalesce(chosen.version, j.version),
      error_code = chosen.error_code,
      error_message = chosen.error_message,
      error_retryable = chosen.error_retryable,
      inference_ms = chosen.inference_ms,
      finished_at = chosen.finished_at,
      lease_until = NULL,
      worker = NULL,
      ring_at = NULL
  FROM chosen
  WHERE j.id = chosen.id
  RETURNING j.id, j.tenant_id, j.model, j.attempt
), attempted AS (
  INSERT INTO job_attempts (job_id, claim, attempt, model, worker, started_at, finished_at, status, error_code,
                            error_message)
  SELECT id, claim, attempt, model, worker, started_at, greatest(started_at, finished_at), status, error_code,
         error_message
  FROM ended
  JOIN chosen USING (id)
  WHERE was = 'running'
), answered AS (
  INSERT INTO job_outputs (job_id, outputs)
  SELECT id, outputs FROM ended JOIN chosen USING (id) WHERE outputs IS NOT NULL
  ON CONFLICT (job_id) DO UPDATE SET outputs = excluded.outputs -- of an earlier life, before the client's own retry
), recorded AS (
  INSERT INTO events (id, tenant_id, job_id, model, type, created_at, body, claim)
  SELECT event_id, tenant_id, ended.id, model, event_type, finished_at, event_body, claim
  FROM ended
  JOIN chosen USING (id)
), announced AS (
  INSERT INTO outbox (id, exchange, routing_key, body, traceparent)
  SELECT message_id, exchange, routing_key, message, traceparent FROM ended JOIN chosen USING (id)
)
SELECT event_id FROM ended JOIN chosen USING (id);

-- name: add_steps
-- Responses of streaming models as they come, each only while its job runs under the claim that the caller knows. One
-- may be there already, where no answer said so.
INSERT INTO job_steps (job_id, claim, number, type, outputs)
SELECT t.id, t.claim, t.number, 'job.output', t.outputs
FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[]) AS t(id, claim, number, outputs)
JOIN jobs j ON j.id = t.id AND j.claim = t.claim
WHERE j.status IN ('processing', 'canceling')
ON CONFLICT DO NOTHING;

-- name: requeue_jobs
-- Queues jobs again, due after a delay (seconds), each only under the claim that the caller knows. A sweeper rings.
-- Returns the ids of those that were.
WITH back AS (
  SELECT *
  FROM unnest($1::uuid[], $2::bigint[], $3::double precision[], $4::boolean[], $5::text[],
              $6::text[], $7::text[], $8::boolean[], $9::boolean[], $10::boolean[])
    AS t(id, claim, delay, given_back, fallback, error_code, error_message, error_retryable, interrupted, refused)
  ORDER BY id
), locked AS (
  SELECT back.*, j.attempt, j.model, j.worker, j.started_at
  FROM jobs j
  JOIN back ON j.id = back.id AND j.claim = back.claim AND j.status = 'processing'
  ORDER BY j.id
  FOR UPDATE OF j
), chosen AS ( -- one, where a lapsed job is returned by its sweeper and by its dispatcher in one call
  SELECT DISTINCT ON (id) * FROM locked ORDER BY id
), attempted AS (
  INSERT INTO job_attempts (job_id, claim, attempt, model, worker, started_at, finished_at, status, error_code,
                            error_message)
  SELECT id, claim, attempt, model, worker, started_at, now(), CASE WHEN given_back THEN 'returned' ELSE 'failed' END,
         error_code, error_message
  FROM chosen
)
UPDATE jobs j
SET status = 'queued',
    run_at = now() + make_interval(secs => back.delay),
    ring_at = now() + make_interval(secs => back.delay),
    attempt = j.attempt - back.given_back::integer,
    interruptions = j.interruptions + back.interrupted::integer,
    started_at = CASE WHEN NOT back.refused OR j.attempt > 1 THEN j.started_at END, -- NULL: it may still expire
    model = coalesce(back.fallback, j.model),
    version = CASE WHEN back.fallback IS NULL THEN j.version END,
    fallback_model = CASE WHEN back.fallback IS NULL THEN j.fallback_model END,
    max_attempts = CASE WHEN back.fallback IS NULL THEN j.max_attempts ELSE j.attempt + 1 END,
    error_code = back.error_code,
    error_message = back.error_message,
    error_retryable = back.error_retryable,
    lease_until = NULL,
    worker = NULL
FROM chosen back
WHERE j.id = back.id
RETURNING j.id;

-- name: renew_leases
-- The heartbeat: renews the leases of the jobs ($1) under their claims ($2) by $3 seconds. Returns those still held,
-- with whether they are to be canceled: so a lost message of the cancellation only delays it.
WITH held AS (
  SELECT j.id
  FROM jobs j
  JOIN unnest($1::uuid[], $2::bigint[]) AS t(id, claim) ON j.id = t.id AND j.claim = t.claim
  WHERE j.status IN ('processing', 'canceling')
  ORDER BY j.id
  FOR UPDATE OF j
)
UPDATE jobs j
SET lease_until = now() + make_interval(secs => $3::double precision)
FROM held
WHERE j.id = held.id
RETURNING j.id, j.status = 'canceling' AS canceling;

-- name: find_abandoned
-- Running jobs whose lease has lapsed: their dispatcher died, or is cut off.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.lease_until < now()
ORDER BY j.lease_until
LIMIT $1;

-- name: find_expired
-- Queued jobs that waited for their first start longer than their client allowed.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.expires_at <= now() AND j.started_at IS NULL AND j.finished_at IS NULL
ORDER BY j.expires_at
LIMIT $1;

-- name: take_unrung
-- Queued jobs (no others have a ring_at) whose doorbell is due: scheduled ones, retries, and ones whose message may have
-- been lost; each with whether its model is still in the catalogue. The next ring comes after as long as they have
-- waited, so that a long queue is not filled with doubled messages.
WITH due AS (
  SELECT id FROM jobs WHERE ring_at <= now() ORDER BY ring_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE jobs j
SET ring_at = now() + greatest(interval '1 minute', now() - j.run_at)
FROM due
WHERE j.id = due.id
RETURNING
  j.id, j.model, j.priority, j.traceparent,
  EXISTS (SELECT FROM models m WHERE m.name = j.model AND m.version = coalesce(j.version, m.version)) AS known;

-- name: find_queued
-- Those of the jobs ($1) that are still queued.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.id = ANY($1::uuid[]) AND j.status = 'queued';

-- name: add_messages
INSERT INTO outbox (id, exchange, routing_key, body, traceparent)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[]);

-- name: save_models
-- The catalogue, as one dispatcher sees it. A version that is not ready is not new: it may have been retired.
INSERT INTO models (name, version, ready, decoupled, max_batch_size, instances, inputs, outputs, updated_at)
SELECT t.*, now()
FROM unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $5::integer[], $6::integer[], $7::jsonb[],
            $8::jsonb[]) AS t(name, version, ready, decoupled, max_batch_size, instances, inputs, outputs)
WHERE t.ready OR EXISTS (SELECT FROM models m WHERE m.name = t.name AND m.version = t.version)
ORDER BY t.name, t.version
ON CONFLICT (name, version) DO UPDATE
SET ready = excluded.ready,
    decoupled = excluded.decoupled,
    max_batch_size = excluded.max_batch_size,
    instances = excluded.instances,
    inputs = excluded.inputs,
    outputs = excluded.outputs,
    missing_since = CASE WHEN NOT excluded.ready THEN models.missing_since END,
    updated_at = now();

-- name: retire_models
-- Takes versions that have been missing for $1 seconds out of the catalogue, and notes which are missing from now on.
-- Only for a dispatcher whose Triton answers: an outage of all servers makes no model miss. Returns those taken out.
WITH missing AS (
  UPDATE models
  SET missing_since = now()
  WHERE missing_since IS NULL AND NOT (ready AND updated_at > now() - interval '30 seconds')
)
DELETE FROM models
WHERE missing_since < now() - make_interval(secs => $1::double precision)
RETURNING name, version;

-- name: purge_jobs
-- Looks at the next $2 jobs that ended more than $1 seconds ago, in order of their ends from behind one of them ($3, $4),
-- and removes them with all that belongs to them, but for those whose webhooks are still under way, and those that
-- somebody holds. Returns the last one looked at, how many were looked at, and how many are gone.
WITH old AS MATERIALIZED (
  SELECT id, finished_at
  FROM jobs
  WHERE finished_at < now() - make_interval(secs => $1::double precision)
    AND (finished_at, id) > ($3::timestamptz, $4::uuid)
  ORDER BY finished_at, id
  LIMIT $2
), free AS MATERIALIZED (
  SELECT j.id
  FROM old
  JOIN jobs j ON j.id = old.id AND j.finished_at IS NOT DISTINCT FROM old.finished_at -- not begun anew meanwhile
  WHERE (SELECT bool_or(d.status = 'pending') FROM deliveries d WHERE d.job_id = j.id) IS NOT TRUE
    AND (SELECT bool_or(e.fanned_out_at IS NULL) FROM events e WHERE e.job_id = j.id) IS NOT TRUE
  FOR UPDATE OF j SKIP LOCKED
), gone AS (
  DELETE FROM jobs USING free WHERE jobs.id = free.id RETURNING jobs.id
)
SELECT finished_at, id, (SELECT count(*) FROM old) AS seen, (SELECT count(*) FROM gone) AS removed
FROM old
ORDER BY finished_at DESC, id DESC
LIMIT 1;

-- name: purge_keys
-- Removes up to $1 idempotency keys that nobody may repeat any more.
DELETE FROM idempotency_keys
WHERE (tenant_id, key) IN (
  SELECT tenant_id, key FROM idempotency_keys WHERE created_at < now() - interval '1 day' ORDER BY created_at LIMIT $1
)
RETURNING key;
