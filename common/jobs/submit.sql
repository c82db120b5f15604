-- name: submit_jobs
-- Adds jobs, but none whose idempotency key was used within a day. No two of them have the same key. A
-- sweeper makes scheduled jobs claimable when they are due. A job with a key of reuse waits for its twin: a sweeper finds or
-- elects that. Returns the jobs that it added.
WITH given AS (
  SELECT *,
         greatest(run_at, now()) AS due_at,
         greatest(run_at, now()) + make_interval(secs => expires_in) AS expires_at
  FROM unnest(
    :jobs.id::uuid[], :jobs.tenant_id::uuid[], :jobs.model::text[], :jobs.version::text[], :jobs.priority::text[],
    :jobs.max_attempts::integer[], :jobs.run_at::timestamptz[], :jobs.expires_in::double precision[],
    :jobs.timeout::double precision[], :jobs.initial_delay::double precision[], :jobs.max_delay::double precision[],
    :jobs.fallback_model::text[], :jobs.traceparent::text[], :jobs.tensors::bytea[], :jobs.parameters::bytea[],
    :jobs.metadata::bytea[], :jobs.callback_url::text[], :jobs.callback_event_list::text[],
    :jobs.idempotency_key::text[], :jobs.fingerprint::bytea[], :jobs.batch_id::uuid[],
    :jobs.retain::double precision[], :jobs.input_bytes::integer[], :jobs.output_location::text[],
    :jobs.input_file_list::text[], :jobs.request::bytea[], :jobs.reuse_key::bytea[],
    :jobs.reuse_seconds::double precision[]
  ) AS t(
    id, tenant_id, model, version, priority,
    max_attempts, run_at, expires_in,
    timeout, initial_delay, max_delay,
    fallback_model, traceparent, tensors, parameters,
    metadata, callback_url, callback_event_list,
    key, fingerprint, batch_id,
    retain, input_bytes, output_location,
    input_file_list, request, reuse_key,
    reuse_seconds
  )
), keyed AS (
  INSERT INTO idempotency_keys AS used (tenant_id, key, fingerprint, job_id, run_at, expires_at, traceparent)
  SELECT tenant_id, key, fingerprint, id, due_at, expires_at, traceparent
  FROM given
  WHERE key IS NOT NULL
  ORDER BY tenant_id, key
  ON CONFLICT (tenant_id, key) DO UPDATE
  SET (fingerprint, job_id, batch_id, created_at, run_at, expires_at, traceparent, answer)
    = (excluded.fingerprint, excluded.job_id, NULL, now(), excluded.run_at, excluded.expires_at, excluded.traceparent,
       NULL)
  WHERE used.created_at < now() - interval '1 day'
  RETURNING job_id
), new AS (
  SELECT * FROM given WHERE key IS NULL OR id IN (SELECT job_id FROM keyed)
), added AS (
  INSERT INTO live_jobs (id, tenant_id, model, version, priority, status, max_attempts, run_at, scheduled_at, expires_at,
                         timeout, initial_delay, max_delay, fallback_model, traceparent, batch_id, retain, input_bytes,
                         tensors, parameters, metadata, callback_url, callback_events, output_location, input_files,
                         request, reuse_key, reuse_seconds)
  SELECT id, tenant_id, model, version, priority, 'queued', max_attempts, due_at,
         CASE WHEN run_at > now() THEN run_at WHEN reuse_key IS NOT NULL THEN 'infinity' END, expires_at,
         timeout, initial_delay, max_delay, fallback_model, traceparent, batch_id, retain, input_bytes, tensors,
         parameters, metadata, callback_url, string_to_array(callback_event_list, ','), output_location,
         string_to_array(input_file_list, ',')::uuid[], request,
         reuse_key, reuse_seconds
  FROM new
  RETURNING id, created_at, run_at, expires_at
)
SELECT id, created_at, run_at, expires_at FROM added;
