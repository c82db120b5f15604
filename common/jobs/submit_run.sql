-- name: use_key
-- Takes the idempotency key of a run, unless it was used within a day. Returns a row if it was free.
INSERT INTO idempotency_keys AS used (tenant_id, key, fingerprint, job_id, run_at, expires_at, traceparent)
VALUES (:tenant, :key::text, :fingerprint::bytea, :job, greatest(:run_at::timestamptz, now()), NULL, :traceparent)
ON CONFLICT (tenant_id, key) DO UPDATE
SET (fingerprint, job_id, batch_id, created_at, run_at, expires_at, traceparent, answer)
  = (excluded.fingerprint, excluded.job_id, NULL, now(), excluded.run_at, excluded.expires_at, excluded.traceparent, NULL)
WHERE used.created_at < now() - interval '1 day'
RETURNING job_id;

-- name: add_runs
-- Adds runs. One that is due later waits until a sweeper begins it, and so do all of them with :wait. The others are begun
-- with their first steps, in the same transaction.
INSERT INTO live_runs (id, generation, tenant_id, model, version, priority, status, attempt, claim, max_attempts, run_at,
                       scheduled_at, started_at, lease_until, worker, timeout, initial_delay, max_delay, traceparent,
                       batch_id, retain, input_bytes, tensors, parameters, metadata, callback_url, callback_events,
                       output_location, input_files, run_state)
SELECT id, -1, tenant_id, model, version, priority, CASE WHEN waits THEN 'queued' ELSE 'processing' END,
       CASE WHEN waits THEN 0 ELSE 1 END, CASE WHEN waits THEN 0 ELSE 1 END, 1, due_at,
       CASE WHEN waits THEN due_at END, CASE WHEN NOT waits THEN now() END,
       CASE WHEN NOT waits THEN now() + make_interval(secs => timeout) END, CASE WHEN NOT waits THEN 'pipeline' END,
       timeout, 0, 0, traceparent, batch_id, retain, input_bytes, tensors, parameters, metadata, callback_url,
       string_to_array(callback_event_list, ','), output_location, string_to_array(input_file_list, ',')::uuid[], state
FROM (
  SELECT *, greatest(run_at, now()) AS due_at, coalesce(run_at > now(), false) OR :wait::boolean AS waits
  FROM unnest(
    :runs.id::uuid[], :runs.tenant_id::uuid[], :runs.model::text[], :runs.version::text[], :runs.priority::text[],
    :runs.run_at::timestamptz[], :runs.timeout::double precision[], :runs.traceparent::text[], :runs.batch_id::uuid[],
    :runs.retain::double precision[], :runs.input_bytes::integer[], :runs.tensors::bytea[], :runs.parameters::bytea[],
    :runs.metadata::bytea[], :runs.callback_url::text[], :runs.callback_event_list::text[],
    :runs.output_location::text[], :runs.input_file_list::text[], :runs.run_state::bytea[]
  ) AS t(
    id, tenant_id, model, version, priority,
    run_at, timeout, traceparent, batch_id,
    retain, input_bytes, tensors, parameters,
    metadata, callback_url, callback_event_list,
    output_location, input_file_list, state
  )
) given
RETURNING id, created_at, run_at, expires_at;
