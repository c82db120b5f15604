-- name: end_jobs
-- Ends jobs, each with its outputs and its event. A job ends only if its state (was) and its claim still match, and no
-- sweeper took one of its files. A job that is being canceled still runs, so whichever end comes first wins; but only
-- such a job can end canceled. Returns the ids of the events that were recorded.
WITH done AS (
  SELECT *
  FROM unnest(
    :ends.id::uuid[], :ends.claim::bigint[], :ends.was::text[], :ends.status::text[], :ends.version::text[],
    :ends.error_code::text[], :ends.error_message::text[], :ends.error_retryable::boolean[],
    :ends.inference_ms::double precision[], :ends.finished_at::timestamptz[], :ends.outputs::bytea[],
    :ends.event.id::uuid[], :ends.event.sequence::bigint[], :ends.event.type::text[], :ends.event.body::bytea[],
    :ends.event.traceparent::text[], :ends.file_count::integer[], :ends.interruptions::integer[], :ends.raw_outputs::bytea[],
    :ends.is_step::boolean[], :ends.prompt_tokens::integer[], :ends.completion_tokens::integer[],
    :ends.finish_reason::text[], :ends.load_id::uuid[]
  ) AS t(
    id, claim, was, status, version,
    error_code, error_message, error_retryable,
    inference_ms, finished_at, outputs,
    event_id, sequence, event_type, event_body,
    traceparent, file_count, interruptions, raw_outputs, is_step,
    prompt_tokens, completion_tokens, finish_reason, load_id
  )
  ORDER BY id
), held AS (
  SELECT f.id, f.size, event_id
  FROM unnest(:files.id::uuid[], :files.event_id::uuid[]) AS made(id, event_id)
  JOIN done USING (event_id)
  JOIN files f ON f.id = made.id AND (f.status = 'uploading' OR f.job_id = done.id)
  ORDER BY f.id
  FOR UPDATE OF f
), locked AS (
  SELECT done.event_id
  FROM live_jobs j
  JOIN done ON j.id = done.id AND j.claim = done.claim
    AND done.was = CASE WHEN j.lease_until IS NOT NULL THEN 'running' ELSE j.status END
    AND (done.status <> 'canceled' OR j.status = 'canceling')
  ORDER BY j.id
  FOR UPDATE OF j
), chosen AS ( -- the first end of a job, if its sweeper and its dispatcher end it in one call
  SELECT DISTINCT ON (done.id) done.*
  FROM done JOIN locked USING (event_id)
  WHERE file_count = (SELECT count(*) FROM held WHERE held.event_id = done.event_id)
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
      generation = current_generation(),
      interruptions = coalesce(chosen.interruptions, j.interruptions),
      ended_xid = CASE WHEN NOT chosen.is_step THEN pg_current_xact_id() END,
      outputs = chosen.outputs,
      raw_outputs = chosen.raw_outputs,
      prompt_tokens = chosen.prompt_tokens,
      completion_tokens = chosen.completion_tokens,
      finish_reason = chosen.finish_reason,
      load_id = chosen.load_id,
      output_file_bytes = (SELECT coalesce(sum(size), 0) FROM held WHERE held.event_id = chosen.event_id),
      lease_until = NULL,
      session = NULL,
      scheduled_at = NULL
  FROM chosen
  WHERE j.id = chosen.id AND j.generation = 0
  RETURNING j.id, j.tenant_id, j.model, j.callback_url, j.callback_events
), stored AS (
  UPDATE files f
  SET status = 'ready', created_at = now(), expires_at = 'infinity', job_id = chosen.id, made_by = chosen.id
  FROM held JOIN chosen USING (event_id)
  WHERE f.id = held.id AND f.status = 'uploading'
), recorded AS (
  INSERT INTO events (id, tenant_id, job_id, model, sequence, type, created_at, body, claim, traceparent, callback_url)
  SELECT event_id, tenant_id, ended.id, model, sequence, event_type, finished_at, event_body, claim, traceparent,
         CASE WHEN callback_events && event_patterns(event_type) THEN callback_url END
  FROM ended JOIN chosen USING (id)
  WHERE NOT chosen.is_step -- its run has an entry for it
)
SELECT event_id FROM ended JOIN chosen USING (id);
