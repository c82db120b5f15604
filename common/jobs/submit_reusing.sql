-- name: submit_reusing
-- Adds jobs with keys, but none whose idempotency key was used within a day, as submit_jobs does. The first job of a key
-- becomes its twin if there is none, or if the twin still is the one to be replaced (before). All others wait for the
-- twin. Returns the jobs that it added.
WITH given AS (
  SELECT *, now() AS due_at, now() + make_interval(secs => expires_in) AS expires_at
  FROM unnest(
    :jobs.job.id::uuid[], :jobs.job.tenant_id::uuid[], :jobs.job.model::text[], :jobs.job.version::text[],
    :jobs.job.priority::text[], :jobs.job.max_attempts::integer[], :jobs.job.expires_in::double precision[],
    :jobs.job.timeout::double precision[], :jobs.job.initial_delay::double precision[],
    :jobs.job.max_delay::double precision[], :jobs.job.fallback_model::text[], :jobs.job.traceparent::text[],
    :jobs.job.tensors::bytea[], :jobs.job.parameters::bytea[], :jobs.job.metadata::bytea[],
    :jobs.job.callback_url::text[], :jobs.job.callback_event_list::text[], :jobs.job.idempotency_key::text[],
    :jobs.job.fingerprint::bytea[], :jobs.job.retain::double precision[], :jobs.job.input_bytes::integer[],
    :jobs.job.request::bytea[], :jobs.job.reuse_key::bytea[], :jobs.job.reuse_seconds::double precision[],
    :jobs.before::uuid[], :jobs.claim::bigint[]
  ) AS t(
    id, tenant_id, model, version, priority, max_attempts, expires_in, timeout, initial_delay, max_delay, fallback_model,
    traceparent, tensors, parameters, metadata, callback_url, callback_event_list, idempotency_key, fingerprint, retain,
    input_bytes, request, reuse_key, reuse_seconds, before, claim
  )
), keyed AS (
  INSERT INTO idempotency_keys AS used (tenant_id, key, fingerprint, job_id, run_at, expires_at, traceparent)
  SELECT tenant_id, idempotency_key, fingerprint, id, due_at, expires_at, traceparent
  FROM given
  WHERE idempotency_key IS NOT NULL
  ORDER BY tenant_id, idempotency_key
  ON CONFLICT (tenant_id, key) DO UPDATE
  SET (fingerprint, job_id, batch_id, created_at, run_at, expires_at, traceparent, answer)
    = (excluded.fingerprint, excluded.job_id, NULL, now(), excluded.run_at, excluded.expires_at, excluded.traceparent,
       NULL)
  WHERE used.created_at < now() - interval '1 day'
  RETURNING job_id
), new AS (
  SELECT * FROM given WHERE idempotency_key IS NULL OR id IN (SELECT job_id FROM keyed)
), elected AS (
  INSERT INTO twins (tenant_id, key, job_id, before)
  SELECT DISTINCT ON (tenant_id, reuse_key) tenant_id, reuse_key, id, before FROM new ORDER BY tenant_id, reuse_key, id
  ON CONFLICT (tenant_id, key) DO UPDATE
  SET job_id = excluded.job_id, before = excluded.before, elected_at = excluded.elected_at
  WHERE twins.job_id = excluded.before
  RETURNING job_id
)
INSERT INTO live_jobs (id, tenant_id, model, version, priority, status, max_attempts, run_at, scheduled_at, expires_at,
                       timeout, initial_delay, max_delay, fallback_model, traceparent, retain, input_bytes, tensors,
                       parameters, metadata, callback_url, callback_events, request, reuse_key, reuse_seconds, claim)
SELECT id, tenant_id, model, version, priority, 'queued', max_attempts, due_at,
       CASE WHEN id NOT IN (SELECT job_id FROM elected) THEN 'infinity'::timestamptz END, expires_at, timeout,
       initial_delay, max_delay, fallback_model, traceparent, retain, input_bytes, tensors, parameters, metadata,
       callback_url, string_to_array(callback_event_list, ','), request, reuse_key, reuse_seconds,
       CASE WHEN id IN (SELECT job_id FROM elected) THEN claim ELSE 0 END
FROM new
RETURNING id, created_at, run_at, expires_at, scheduled_at IS NULL AS leads;

-- name: add_reused
-- Adds jobs that have ended with the result of a twin (source), each with its event, but none whose idempotency key was used
-- within a day, and none whose twin was erased, forgotten or removed meanwhile: the lock keeps it until the end. Returns
-- those that it added.
WITH given AS (
  SELECT *, at + make_interval(secs => expires_in) AS expires_at
  FROM unnest(
    :jobs.job.id::uuid[], :jobs.job.tenant_id::uuid[], :jobs.job.priority::text[], :jobs.job.max_attempts::integer[],
    :jobs.job.expires_in::double precision[], :jobs.job.timeout::double precision[],
    :jobs.job.initial_delay::double precision[], :jobs.job.max_delay::double precision[],
    :jobs.job.fallback_model::text[], :jobs.job.traceparent::text[], :jobs.job.tensors::bytea[],
    :jobs.job.parameters::bytea[], :jobs.job.metadata::bytea[], :jobs.job.callback_url::text[],
    :jobs.job.callback_event_list::text[], :jobs.job.idempotency_key::text[], :jobs.job.fingerprint::bytea[],
    :jobs.job.retain::double precision[], :jobs.job.input_bytes::integer[], :jobs.job.request::bytea[],
    :jobs.job.reuse_key::bytea[], :jobs.job.reuse_seconds::double precision[], :jobs.twin::uuid[],
    :jobs.claim::bigint[], :jobs.at::timestamptz[],
    :jobs.event.id::uuid[], :jobs.event.sequence::bigint[], :jobs.event.type::text[], :jobs.event.body::bytea[],
    :jobs.event.traceparent::text[]
  ) AS t(
    id, tenant_id, priority, max_attempts, expires_in, timeout, initial_delay, max_delay, fallback_model, traceparent,
    tensors, parameters, metadata, callback_url, callback_event_list, idempotency_key, fingerprint, retain, input_bytes,
    request, reuse_key, reuse_seconds, source, claim, at, event_id, sequence, event_type, event_body, event_traceparent
  )
), maker AS MATERIALIZED (
  SELECT id, model, version, outputs, output_file_bytes, load_id, prompt_tokens, completion_tokens, finish_reason
  FROM jobs j
  WHERE id = ANY(:jobs.twin::uuid[]) AND generation > 0 AND status = 'succeeded' AND erased_at IS NULL
    AND NOT EXISTS (
      SELECT FROM twins t
      WHERE t.tenant_id = j.tenant_id AND t.key = j.reuse_key AND t.forgotten_at >= j.finished_at
    )
  ORDER BY id
  FOR KEY SHARE OF j
), keyed AS (
  INSERT INTO idempotency_keys AS used (tenant_id, key, fingerprint, job_id, run_at, expires_at, traceparent)
  SELECT tenant_id, idempotency_key, fingerprint, id, at, expires_at, traceparent
  FROM given
  WHERE idempotency_key IS NOT NULL AND source IN (SELECT id FROM maker)
  ORDER BY tenant_id, idempotency_key
  ON CONFLICT (tenant_id, key) DO UPDATE
  SET (fingerprint, job_id, batch_id, created_at, run_at, expires_at, traceparent, answer)
    = (excluded.fingerprint, excluded.job_id, NULL, now(), excluded.run_at, excluded.expires_at, excluded.traceparent,
       NULL)
  WHERE used.created_at < now() - interval '1 day'
  RETURNING job_id
), new AS (
  SELECT given.*, maker.model, maker.version, outputs, output_file_bytes, load_id, prompt_tokens, completion_tokens,
         finish_reason
  FROM given
  JOIN maker ON maker.id = given.source
  WHERE idempotency_key IS NULL OR given.id IN (SELECT job_id FROM keyed)
), shared AS (
  INSERT INTO shared_outputs (source, job_id) SELECT source, id FROM new WHERE output_file_bytes > 0
), recorded AS (
  INSERT INTO events (id, tenant_id, job_id, model, sequence, type, created_at, body, claim, traceparent, callback_url)
  SELECT event_id, tenant_id, id, model, sequence, event_type, at, event_body, claim, event_traceparent,
         CASE WHEN string_to_array(callback_event_list, ',') && event_patterns(event_type) THEN callback_url END
  FROM new
)
INSERT INTO jobs (id, generation, tenant_id, model, version, priority, status, max_attempts, created_at, run_at, expires_at,
                  finished_at, ended_xid, timeout, initial_delay, max_delay, fallback_model, traceparent, retain,
                  input_bytes, tensors, parameters, metadata, callback_url, callback_events, request, outputs,
                  output_file_bytes, prompt_tokens, completion_tokens, finish_reason, reuse_key, reuse_seconds,
                  reused_from, load_id, claim)
SELECT id, current_generation(), tenant_id, model, version, priority, 'succeeded', max_attempts, at, at, expires_at, at,
       pg_current_xact_id(), timeout, initial_delay, max_delay, fallback_model, traceparent, retain, input_bytes, tensors,
       parameters, metadata, callback_url, string_to_array(callback_event_list, ','), request, outputs,
       output_file_bytes, prompt_tokens, completion_tokens, finish_reason, reuse_key, reuse_seconds, source, load_id, claim
FROM new
RETURNING id;
