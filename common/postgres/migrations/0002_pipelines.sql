-- compatible with: 1

-- A tenant's pipelines. A version never changes, because runs refer to it. A deleted pipeline keeps its versions: runs may
-- go on, and be retried.
CREATE TABLE pipelines (
  tenant_id uuid NOT NULL REFERENCES tenants,
  name text NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  definition bytea NOT NULL, -- JSON: common/pipelines/definition.py
  inputs bytea NOT NULL, -- JSON: a list of {name, datatype, shape, optional, reference}, as for a model
  outputs bytea NOT NULL, -- JSON: of each step a list of {name, datatype, shape}, as its models declared them
  created_at timestamptz NOT NULL DEFAULT now(),
  deleted_at timestamptz, -- of all versions that there were then
  PRIMARY KEY (tenant_id, name, version)
);

-- A run of a pipeline is a job. It lives in a partition of its own, where no dispatcher looks for jobs to claim. Its steps
-- are ordinary jobs. `lease_until` of a run is its deadline.
CREATE TABLE live_runs PARTITION OF jobs (PRIMARY KEY (id)) FOR VALUES IN (-1) WITH (fillfactor = 50);
CREATE INDEX runs_scheduled ON live_runs (scheduled_at) WHERE scheduled_at IS NOT NULL;
CREATE INDEX runs_by_deadline ON live_runs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX runs_by_input_file ON live_runs USING gin (input_files) WHERE input_files IS NOT NULL;
CREATE INDEX runs_of_batch ON live_runs (batch_id, status) WHERE batch_id IS NOT NULL;
CREATE INDEX runs_by_tenant ON live_runs (tenant_id, created_at, id, model) INCLUDE (input_bytes, priority, run_at);

ALTER TABLE jobs
  ADD COLUMN parent uuid, -- the run of a step's job
  ADD COLUMN step text, -- the step's name in the pipeline
  ADD COLUMN step_index integer, -- the element of `for_each`, from 0; 0 of a step without it
  ADD COLUMN raw_outputs bytea COMPRESSION lz4, -- of a step's job that has succeeded: packed by common/tensors.py
  ADD COLUMN run_state bytea; -- of a run: JSON, common/pipelines/run_state.py

CREATE OR REPLACE VIEW job_facts AS
SELECT
  id, generation, tenant_id, batch_id, model, version, priority, status, attempt, max_attempts, claim, interruptions, probation, input_bytes,
  created_at, run_at, scheduled_at, started_at, finished_at, ended_xid, expires_at, erased_at, lease_until, worker, session,
  timeout, initial_delay, max_delay, fallback_model, retain, error_code, error_message, error_retryable, inference_ms,
  traceparent, metadata, octet_length(tensors) AS tensors_size, octet_length(outputs) AS outputs_size,
  callback_url IS NOT NULL AS has_callback, parent, step, step_index, run_state
FROM jobs;

-- Whether this dispatcher ends the jobs of steps as runs need it. Runs are accepted once all do.
ALTER TABLE dispatchers ADD COLUMN knows_runs boolean NOT NULL DEFAULT false;
CREATE OR REPLACE VIEW dispatchers_now AS
SELECT worker, seen_at, seen_at > now() - interval '8 seconds' AS is_alive, knows_runs FROM dispatchers;

GRANT SELECT, INSERT, UPDATE (deleted_at) ON pipelines TO charonia_gateway;
GRANT SELECT ON pipelines TO charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE ON live_runs TO charonia_gateway;
GRANT SELECT, UPDATE ON live_runs TO charonia_dispatcher;
GRANT INSERT ON live_jobs TO charonia_dispatcher;
