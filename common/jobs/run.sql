-- name: add_steps
-- Adds jobs of steps of locked runs. One with a key of reuse waits for its twin.
INSERT INTO live_jobs (id, tenant_id, model, version, priority, status, max_attempts, timeout, initial_delay, max_delay,
                       fallback_model, traceparent, retain, input_bytes, tensors, parameters, input_files, parent, step,
                       step_index, scheduled_at, reuse_key, reuse_seconds)
SELECT id, tenant_id, model, version, priority, 'queued', max_attempts, timeout, initial_delay, max_delay, fallback_model,
       traceparent, retain, input_bytes, tensors, parameters, string_to_array(input_file_list, ',')::uuid[], parent, step,
       step_index, CASE WHEN reuse_key IS NOT NULL THEN 'infinity'::timestamptz END, reuse_key, reuse_seconds
FROM unnest(
  :jobs.id::uuid[], :jobs.tenant_id::uuid[], :jobs.model::text[], :jobs.version::text[], :jobs.priority::text[],
  :jobs.max_attempts::integer[], :jobs.timeout::double precision[], :jobs.initial_delay::double precision[],
  :jobs.max_delay::double precision[], :jobs.fallback_model::text[], :jobs.traceparent::text[],
  :jobs.retain::double precision[], :jobs.input_bytes::integer[], :jobs.tensors::bytea[], :jobs.parameters::bytea[],
  :jobs.input_file_list::text[], :jobs.parent::uuid[], :jobs.step::text[], :jobs.step_index::integer[],
  :jobs.reuse_key::bytea[], :jobs.reuse_seconds::double precision[]
) AS t(
  id, tenant_id, model, version, priority,
  max_attempts, timeout, initial_delay,
  max_delay, fallback_model, traceparent,
  retain, input_bytes, tensors, parameters,
  input_file_list, parent, step, step_index,
  reuse_key, reuse_seconds
);

-- name: lock_runs
-- Locks those of the :runs that have not ended, in one order, and returns them with their states and inputs.
SELECT *, now() AS now FROM live_runs WHERE id = ANY(:runs::uuid[]) ORDER BY id FOR UPDATE;

-- name: lock_free_runs
-- Does the same for those that nobody else has locked.
SELECT *, now() AS now FROM live_runs WHERE id = ANY(:runs::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: begin_run
-- Begins a locked :run that waits for its time. Returns it.
UPDATE live_runs
SET status = 'processing', attempt = 1, claim = claim + 1, started_at = now(),
    lease_until = now() + make_interval(secs => timeout), worker = 'pipeline', scheduled_at = NULL
WHERE id = :run AND status = 'queued'
RETURNING *, now() AS now;

-- name: schedule_run
-- Leaves a :run that nobody else has locked to the sweep, in :seconds from now. NULL: takes it from the sweep.
UPDATE live_runs
SET scheduled_at = now() + make_interval(secs => :seconds::double precision)
WHERE id = (SELECT id FROM live_runs WHERE id = :run FOR UPDATE SKIP LOCKED);

-- name: record_start
-- Records the event of the start of a locked :run, if a webhook wants it. Returns a row then.
INSERT INTO events (id, tenant_id, job_id, model, type, created_at, body, traceparent, sequence, claim, callback_url)
SELECT :event_id, tenant_id, id, model, 'job.started', started_at, :body::bytea, :traceparent::text, :sequence, claim,
       CASE WHEN callback_events && event_patterns('job.started') THEN callback_url END
FROM live_runs r
WHERE id = :run AND (
  coalesce(callback_events && event_patterns('job.started'), false)
  OR EXISTS (SELECT FROM webhooks w WHERE w.tenant_id = r.tenant_id AND w.events && event_patterns('job.started'))
)
RETURNING id;

-- name: save_states
-- Saves the states of locked runs.
UPDATE live_runs r
SET run_state = t.state
FROM unnest(:runs.id::uuid[], :runs.state::bytea[]) AS t(id, state)
WHERE r.id = t.id;

-- name: end_run
-- Ends a locked :run with its outputs and its event.
WITH ended AS (
  UPDATE jobs
  SET status = :status, finished_at = now(), generation = current_generation(), ended_xid = pg_current_xact_id(),
      error_code = :error_code::text, error_message = :error_message::text, error_retryable = :error_retryable::boolean,
      inference_ms = :inference_ms::double precision, outputs = :outputs::bytea, run_state = :state::bytea,
      lease_until = NULL, scheduled_at = NULL
  WHERE id = :run AND generation = -1
  RETURNING id, tenant_id, model, claim, callback_url, callback_events, finished_at
)
INSERT INTO events (id, tenant_id, job_id, model, type, created_at, body, traceparent, sequence, claim, callback_url)
SELECT :event_id, tenant_id, id, model, :event_type, finished_at, :body::bytea, :traceparent::text, :sequence, claim,
       CASE WHEN callback_events && event_patterns(:event_type) THEN callback_url END
FROM ended;

-- name: cancel_steps
-- Cancels the queued jobs of a :run without events, and marks those that run as canceling. Returns the latter.
WITH waiting AS (
  SELECT id FROM live_jobs WHERE parent = :run AND status = 'queued' ORDER BY id FOR UPDATE
), canceled AS (
  UPDATE jobs
  SET status = 'canceled', finished_at = now(), generation = current_generation(), scheduled_at = NULL
  FROM waiting
  WHERE jobs.id = waiting.id AND jobs.generation = 0
), running AS (
  SELECT id FROM live_jobs WHERE parent = :run AND status = 'processing' ORDER BY id FOR UPDATE
)
UPDATE live_jobs j
SET status = 'canceling'
FROM running
WHERE j.id = running.id
RETURNING j.id, j.traceparent;

-- name: read_outputs
-- Returns the outputs of up to :count jobs of a step of a :run that have succeeded, in the order of the elements, from element
-- :first on. Those after the first one have at most :limit bytes together with it.
SELECT step_index, raw_outputs
FROM (
  SELECT step_index, raw_outputs, sum(octet_length(raw_outputs)) OVER (ORDER BY step_index) AS size
  FROM (
    SELECT step_index, raw_outputs
    FROM jobs
    WHERE generation >= 0 AND parent = :run AND step = :step AND step_index >= :first AND status = 'succeeded'
    ORDER BY step_index
    LIMIT :count
  ) next
) measured
WHERE size <= :limit OR step_index = :first
ORDER BY step_index;

-- name: find_overdue_runs
-- Finds up to :limit runs whose deadline has passed.
SELECT id FROM live_runs WHERE lease_until < now() ORDER BY lease_until LIMIT :limit;

-- name: find_due_runs
-- Finds up to :limit runs whose time has come.
SELECT id FROM live_runs WHERE scheduled_at <= now() ORDER BY scheduled_at LIMIT :limit;

-- name: add_step_events
-- Adds entries about steps to the streams of locked runs, in the order given.
WITH given AS (
  SELECT *
  FROM unnest(:events.run::uuid[], :events.claim::bigint[], :events.type::text[], :events.data::bytea[])
    WITH ORDINALITY AS t(run, claim, type, data, place)
), latest AS (
  SELECT run, (SELECT max(number) FROM job_steps s WHERE s.job_id = run AND s.claim = streams.claim) AS number
  FROM (SELECT DISTINCT run, claim FROM given) streams
)
INSERT INTO job_steps (job_id, claim, number, type, outputs)
SELECT run, claim, coalesce(number, 0) + row_number() OVER (PARTITION BY run ORDER BY place), type, data
FROM given JOIN latest USING (run);

-- name: count_step_jobs
-- Counts the jobs of each step of a :run, and those of them that succeeded. `last` is the last element that has a job.
SELECT step, count(*) AS made, count(*) FILTER (WHERE status = 'succeeded') AS done, max(step_index) AS last,
       count(*) FILTER (WHERE finished_at IS NULL) AS live
FROM jobs
WHERE generation >= 0 AND parent = :run
GROUP BY step;

-- name: list_failed_steps
-- Returns the jobs of an ended :run's steps that have ended without success.
SELECT id FROM jobs WHERE generation > 0 AND parent = :run AND status <> 'succeeded';

-- name: list_step_jobs
-- Returns the job of the first element of each step of a :run.
SELECT step, id FROM jobs WHERE generation >= 0 AND parent = :run AND step = ANY(:steps::text[]) AND step_index = 0;

-- name: erase_steps
-- Erases the payload of the jobs of an ended, locked :run's steps. They keep their status, times and sizes. The lock lets
-- nobody give them a file meanwhile.
WITH step_jobs AS MATERIALIZED (
  SELECT id FROM jobs WHERE generation > 0 AND parent = :run ORDER BY id FOR UPDATE
), own_files AS (
  UPDATE files SET status = 'deleting', expires_at = now(), job_id = NULL
  WHERE job_id = ANY(ARRAY(SELECT id FROM step_jobs))
), erased_attempts AS (
  UPDATE job_attempts SET error_message = NULL
  WHERE job_id = ANY(ARRAY(SELECT id FROM step_jobs)) AND error_message IS NOT NULL
)
UPDATE jobs
SET erased_at = now(), error_message = NULL, tensors = '', parameters = NULL, input_files = NULL, outputs = NULL,
    raw_outputs = NULL
WHERE generation > 0 AND id IN (SELECT id FROM step_jobs);
