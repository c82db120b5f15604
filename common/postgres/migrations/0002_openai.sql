-- compatible with: 1
--
-- What models say of themselves, and the requests of jobs that another protocol was translated from.

-- Of config.pbtxt: the parameters whose names begin with `charonia.`, and the `backend`. Texts by name.
ALTER TABLE served_models ADD COLUMN settings jsonb NOT NULL DEFAULT '{}';

-- The request that the job was translated from, as JSON: services/gateway/openai/calls/request.py. NULL: it came as a job.
-- It is erased with the payload. A gateway of the release before leaves it when it erases a job; nobody shows it after that.
ALTER TABLE jobs ADD COLUMN request bytea COMPRESSION lz4;

CREATE OR REPLACE VIEW served_now AS
SELECT s.name, s.version, s.worker, s.session, s.ready, s.decoupled, s.max_batch_size, s.instances, s.slots, s.inputs,
       s.outputs, s.queue_ms, s.compute_ms, s.limited_by, s.described_at, s.missing_since, s.updated_at, d.seen_at,
       coalesce(d.is_alive AND s.updated_at > now() - interval '30 seconds', false) AS is_alive, s.settings
FROM served_models s
LEFT JOIN dispatchers_now d ON d.worker = s.worker;

CREATE OR REPLACE VIEW models AS
SELECT DISTINCT ON (name, version) name, version, is_ready AS ready, decoupled, max_batch_size, inputs, outputs, settings
FROM (SELECT *, ready AND is_alive AS is_ready FROM served_now) served
ORDER BY name, version, is_ready DESC, described_at DESC, worker;

CREATE OR REPLACE VIEW job_facts AS
SELECT
  id, generation, tenant_id, batch_id, model, version, priority, status, attempt, max_attempts, claim, interruptions, probation, input_bytes,
  created_at, run_at, scheduled_at, started_at, finished_at, ended_xid, expires_at, erased_at, lease_until, worker, session,
  timeout, initial_delay, max_delay, fallback_model, retain, error_code, error_message, error_retryable, inference_ms,
  traceparent, metadata, octet_length(tensors) AS tensors_size, octet_length(outputs) AS outputs_size,
  callback_url IS NOT NULL AS has_callback, parent, step, step_index, run_state, octet_length(request) AS request_size
FROM jobs;

-- A batch may be canceled, and its items may be the lines of a file, which become jobs page by page.
ALTER TABLE batches
  ADD COLUMN canceled_at timestamptz, -- when a client canceled it; a gateway then cancels its jobs page by page
  ADD COLUMN expires_at timestamptz, -- lines that are no jobs by then never run; NULL: there is no such time
  ADD COLUMN request bytea COMPRESSION lz4, -- the call that it was translated from, as JSON; NULL: it came as a batch
  ADD COLUMN input_file uuid, -- its lines are the items; NULL: they came with the call
  ADD COLUMN read_to bigint, -- the bytes of that file whose lines are items so far; NULL: all are
  DROP CONSTRAINT batches_check,
  ADD CONSTRAINT batches_accepted_of_total
    CHECK (accepted BETWEEN CASE WHEN request IS NULL THEN 1 ELSE 0 END AND total),
  ADD CONSTRAINT batches_unread_is_open CHECK (read_to IS NULL OR finished_at IS NULL);
CREATE INDEX batches_at_work ON batches (tenant_id, id)
  WHERE finished_at IS NULL AND (read_to IS NOT NULL OR canceled_at IS NOT NULL);
CREATE INDEX batches_by_request ON batches (tenant_id, created_at, id) WHERE request IS NOT NULL;
CREATE INDEX batches_by_unread_file ON batches (input_file) WHERE read_to IS NOT NULL;

-- A maintenance process of the release before completes a batch without jobs that wait or run, although lines are left.
-- Drop this in the release after.
CREATE FUNCTION skip_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER batches_stay_open BEFORE UPDATE OF finished_at ON batches
  FOR EACH ROW WHEN (NEW.read_to IS NOT NULL) EXECUTE FUNCTION skip_row();

-- What OpenAI's clients say about a file.
ALTER TABLE files ADD COLUMN name text, ADD COLUMN purpose text;

INSERT INTO leader_leases (role) VALUES ('batches');
GRANT SELECT, UPDATE (holder, expires_at, is_fit) ON leader_leases TO charonia_gateway;
GRANT UPDATE (canceled_at, request, read_to, accepted) ON batches TO charonia_gateway;

-- Tokens --------------------------------------------------------------------------------------------------------------

-- What a language model said at the end of a job that has succeeded; NULL: it said nothing. Nothing else writes them, so a
-- dispatcher of the release before leaves them NULL.
ALTER TABLE jobs
  ADD COLUMN prompt_tokens integer,
  ADD COLUMN completion_tokens integer,
  ADD COLUMN finish_reason text; -- stop, length, or what the model says

-- A dispatcher of the release before counts no tokens of the ends that it counts.
ALTER TABLE usage
  ADD COLUMN prompt_tokens bigint NOT NULL DEFAULT 0,
  ADD COLUMN completion_tokens bigint NOT NULL DEFAULT 0;

-- A job that has failed has no tokens, so a retry has none to count: see count_before_retry.
CREATE OR REPLACE VIEW ended_usage AS
SELECT
  id, ended_xid, tenant_id, timezone('UTC', finished_at)::date AS day, model,
  (status = 'succeeded')::integer AS succeeded, (status = 'failed')::integer AS failed,
  (status = 'canceled')::integer AS canceled, (status = 'expired')::integer AS expired,
  coalesce(inference_ms, 0) / 1000 AS inference_seconds, input_bytes AS bytes_in,
  coalesce(octet_length(outputs), 0) + output_file_bytes AS bytes_out,
  coalesce(prompt_tokens, 0) AS prompt_tokens, coalesce(completion_tokens, 0) AS completion_tokens
FROM jobs
WHERE generation > 0;
