-- name: retry_jobs
-- Queues those of a :tenant's :jobs again that have one of these :statuses, on another :model if given. The raised
-- claim rejects late writes: results of earlier attempts, and an end meant for the job before the retry. An end that is
-- not counted in the tenant's usage yet is counted now. A suspect stays one on the same model: otherwise each retry
-- could stop Triton three more times. A sweeper makes it claimable. A run waits to be begun again. What the jobs have of
-- history moves to the current generation: theirs may be emptied right now.
WITH ended AS (
  SELECT *, coalesce(:model, model) = model AS same_model
  FROM jobs
  WHERE tenant_id = :tenant AND id = ANY(:jobs::uuid[]) AND generation > 0 AND status = ANY(:statuses::text[])
    AND erased_at IS NULL
  ORDER BY id
  FOR UPDATE
), counted AS MATERIALIZED (
  SELECT count_before_retry(array_agg(id)) FROM ended
), last_attempts AS (
  INSERT INTO job_attempts (job_id, claim, attempt, model, worker, due_at, started_at, finished_at, status, error_code,
                            error_message)
  SELECT id, claim, attempt, model, worker, run_at, started_at, greatest(started_at, finished_at), status, error_code,
         error_message
  FROM ended
  WHERE worker IS NOT NULL
), events_kept AS (
  UPDATE events SET generation = current_generation()
  WHERE job_id IN (SELECT id FROM ended) AND generation <> current_generation()
  RETURNING id
), deliveries_kept AS (
  UPDATE deliveries
  SET generation = CASE generation WHEN 0 THEN 0 ELSE current_generation() END, event_generation = current_generation()
  WHERE event_id = ANY(ARRAY(SELECT id FROM events_kept))
  RETURNING id
), delivery_attempts_kept AS (
  UPDATE attempts SET generation = current_generation()
  WHERE delivery_id = ANY(ARRAY(SELECT id FROM deliveries_kept)) AND generation <> current_generation()
), attempts_kept AS (
  UPDATE job_attempts SET generation = current_generation()
  WHERE job_id IN (SELECT id FROM ended) AND generation <> current_generation()
), steps_kept AS (
  UPDATE job_steps SET generation = current_generation()
  WHERE job_id IN (SELECT id FROM ended) AND generation <> current_generation()
), retried AS (
  UPDATE jobs j
  SET status = 'queued',
      generation = CASE WHEN j.run_state IS NULL THEN 0 ELSE -1 END,
      model = coalesce(:model, j.model),
      version = CASE WHEN :model::text IS NULL THEN j.version END,
      attempt = 0,
      claim = j.claim + 1,
      interruptions = CASE WHEN same_model THEN j.interruptions ELSE 0 END,
      probation = CASE WHEN same_model AND j.interruptions > 0 THEN j.probation END,
      run_at = now(),
      scheduled_at = CASE
        WHEN j.run_state IS NOT NULL OR same_model AND j.interruptions > 0 AND j.probation IS NOT NULL THEN now()
      END,
      worker = NULL,
      started_at = NULL,
      finished_at = NULL,
      ended_xid = NULL,
      expires_at = NULL,
      error_code = NULL,
      error_message = NULL,
      error_retryable = NULL,
      inference_ms = NULL,
      outputs = NULL,
      raw_outputs = NULL,
      output_file_bytes = 0,
      reuse_key = CASE WHEN :model::text IS NULL THEN j.reuse_key END,
      load_id = NULL
  FROM ended CROSS JOIN counted
  WHERE j.id = ended.id AND j.generation > 0
  RETURNING j.tenant_id, j.id, j.model, j.priority, j.traceparent, j.claim
), step AS (
  INSERT INTO job_steps (job_id, claim, number, type) SELECT id, claim, 0, 'job.queued' FROM retried
)
SELECT tenant_id, id, model, priority, traceparent FROM retried;
