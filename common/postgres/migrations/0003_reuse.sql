-- compatible with: 1
-- migrate: no transaction
--
-- Each statement is a transaction of its own, as in 0002_openai.sql.
--
-- The same question is answered once: docs/decisions/0029-twins.md. Services of the release before know nothing of it. They
-- end twins without a load, so that nobody takes those results.

-- Loads ---------------------------------------------------------------------------------------------------------------

-- The load of each version of a model in a Triton. A load with other weights is another model.
CREATE TABLE IF NOT EXISTS model_loads (
  server text NOT NULL, -- the address of the Triton, as for quarantines
  name text NOT NULL,
  version text NOT NULL,
  load_id uuid NOT NULL,
  executions bigint NOT NULL CHECK (executions >= 0), -- requests that succeeded, as last seen; fewer are of another load
  loaded_at timestamptz NOT NULL DEFAULT now(), -- when a dispatcher first saw it
  saved_by text NOT NULL, -- the dispatcher that last saved it
  seen_at timestamptz NOT NULL DEFAULT now(), -- when it did; a row that nobody saves for a day goes
  PRIMARY KEY (server, name, version)
) WITH (fillfactor = 50);

-- The load that a dispatcher's Triton has, or had last. NULL: not known, or the dispatcher is one of the release before. A
-- model whose configuration names its weights has the same `load_id` in all Tritons: services/dispatcher/models/loads.py.
ALTER TABLE served_models ADD COLUMN IF NOT EXISTS load_id uuid, ADD COLUMN IF NOT EXISTS loaded_at timestamptz;

CREATE OR REPLACE VIEW served_now AS
SELECT s.name, s.version, s.worker, s.session, s.ready, s.decoupled, s.max_batch_size, s.instances, s.slots, s.inputs,
       s.outputs, s.queue_ms, s.compute_ms, s.limited_by, s.described_at, s.missing_since, s.updated_at, d.seen_at,
       coalesce(d.is_alive AND s.updated_at > now() - interval '30 seconds', false) AS is_alive, s.settings, s.load_id,
       s.loaded_at
FROM served_models s
LEFT JOIN dispatchers_now d ON d.worker = s.worker;

-- `loads` are those that answer now. Of a version that is not ready, they are the last ones of live dispatchers, and the newest
-- one: an older one of a dead dispatcher may have been replaced. NULL: a dispatcher that serves the version does not say which
-- load it is. `loaded_at` is when the oldest of the loads was first seen.
CREATE OR REPLACE VIEW models AS
SELECT DISTINCT ON (name, version)
  name, version, is_ready AS ready, decoupled, max_batch_size, inputs, outputs, settings,
  CASE
    WHEN NOT is_ready OR bool_and(load_id IS NOT NULL) OVER alike
    THEN array_agg(load_id) FILTER (WHERE load_id IS NOT NULL AND (is_alive OR loaded_at = newest)) OVER alike
  END AS loads,
  min(loaded_at) FILTER (WHERE is_alive OR loaded_at = newest) OVER alike AS loaded_at
FROM (
  SELECT *, ready AND is_alive AS is_ready, max(loaded_at) OVER (PARTITION BY name, version) AS newest FROM served_now
) served
WINDOW alike AS (PARTITION BY name, version, is_ready)
ORDER BY name, version, is_ready DESC, described_at DESC, worker;

GRANT SELECT, INSERT, UPDATE, DELETE ON model_loads TO charonia_dispatcher;
GRANT SELECT ON served_now TO charonia_dispatcher;


-- Jobs that ask the same ----------------------------------------------------------------------------------------------

ALTER TABLE jobs
  ADD COLUMN IF NOT EXISTS reuse_key bytea, -- common/reuse/digest.py; NULL: the job shares nothing
  ADD COLUMN IF NOT EXISTS reuse_seconds double precision, -- how old a result may be that it takes
  ADD COLUMN IF NOT EXISTS reused_from uuid, -- the job whose attempt made its result; NULL: its own
  ADD COLUMN IF NOT EXISTS load_id uuid; -- of the model that made the result; NULL: not known, so nobody takes it

-- The twin of each key: the job that answers it. A twin waits, runs or has succeeded. Whoever finds that it can answer nothing
-- any more puts another job in its place, if it still is the twin. A queued job with a key that waits for the twin has
-- `scheduled_at = 'infinity'`, which no claim and no sweep of due jobs finds.
CREATE TABLE IF NOT EXISTS twins (
  tenant_id uuid NOT NULL,
  key bytea NOT NULL CHECK (octet_length(key) = 32),
  job_id uuid NOT NULL, -- no foreign key: the job may be removed first
  before uuid, -- the twin that it replaced
  elected_at timestamptz NOT NULL DEFAULT now(),
  forgotten_at timestamptz, -- a job that shows the result was erased then: results from before it answer nobody
  PRIMARY KEY (tenant_id, key)
);

-- The jobs that show outputs in files which another job (`source`) made. The files stay until the last of them is gone.
CREATE TABLE IF NOT EXISTS shared_outputs (
  source uuid NOT NULL,
  job_id uuid NOT NULL,
  PRIMARY KEY (source, job_id)
);
CREATE INDEX IF NOT EXISTS shared_outputs_by_job ON shared_outputs (job_id);

-- The job whose output it is. Dispatchers of the release before leave it NULL, and such a file is not shared.
ALTER TABLE files ADD COLUMN IF NOT EXISTS made_by uuid;

-- Give a file that its job no longer shows to another job that shows it, and leave the file as it is then. So services of
-- the release before keep shared files, too. The lock keeps that job from being erased or removed meanwhile. The steps of a
-- run are erased by one statement, so an erasure gives none of their files to another step of the run.
CREATE OR REPLACE FUNCTION keep_shared_file() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  heir uuid;
BEGIN
  SELECT j.id INTO heir
  FROM shared_outputs s
  JOIN jobs j ON j.id = s.job_id
  WHERE s.source = OLD.made_by AND j.id <> OLD.job_id AND j.erased_at IS NULL AND j.finished_at IS NOT NULL
    AND (
      NEW.status <> 'deleting' OR j.parent IS NULL
      OR j.parent IS DISTINCT FROM (SELECT parent FROM jobs WHERE id = OLD.job_id)
    )
  ORDER BY j.id
  LIMIT 1
  FOR KEY SHARE OF j;
  IF FOUND THEN
    NEW := OLD;
    NEW.job_id := heir;
  ELSE
    DELETE FROM shared_outputs WHERE source = OLD.made_by;
  END IF;
  RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER keep_shared_file BEFORE UPDATE OF job_id ON files
  FOR EACH ROW WHEN (OLD.made_by IS NOT NULL AND OLD.job_id IS NOT NULL AND NEW.job_id IS NULL)
  EXECUTE FUNCTION keep_shared_file();

-- `twin`: of a job that waits for another one, that job.
CREATE OR REPLACE VIEW job_facts AS
SELECT
  id, generation, tenant_id, batch_id, model, version, priority, status, attempt, max_attempts, claim, interruptions, probation, input_bytes,
  created_at, run_at, scheduled_at, started_at, finished_at, ended_xid, expires_at, erased_at, lease_until, worker, session,
  timeout, initial_delay, max_delay, fallback_model, retain, error_code, error_message, error_retryable, inference_ms,
  traceparent, metadata, octet_length(tensors) AS tensors_size, octet_length(outputs) AS outputs_size,
  callback_url IS NOT NULL AS has_callback, parent, step, step_index, run_state, octet_length(request) AS request_size,
  finish_reason, reuse_key, reuse_seconds, reused_from, load_id,
  CASE
    WHEN reuse_key IS NOT NULL AND scheduled_at = 'infinity'
    THEN (SELECT t.job_id FROM twins t WHERE t.tenant_id = jobs.tenant_id AND t.key = jobs.reuse_key)
  END AS twin
FROM jobs;

-- A job that took its result from another one counts only as reused. A count of the release before leaves that out.
ALTER TABLE usage ADD COLUMN IF NOT EXISTS reused bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW ended_usage AS
SELECT
  id, ended_xid, tenant_id, timezone('UTC', finished_at)::date AS day, model,
  (status = 'succeeded' AND reused_from IS NULL)::integer AS succeeded, (status = 'failed')::integer AS failed,
  (status = 'canceled')::integer AS canceled, (status = 'expired')::integer AS expired,
  coalesce(inference_ms, 0) / 1000 AS inference_seconds, input_bytes AS bytes_in,
  coalesce(octet_length(outputs), 0) + output_file_bytes AS bytes_out,
  CASE WHEN reused_from IS NULL THEN coalesce(prompt_tokens, 0) ELSE 0 END AS prompt_tokens,
  CASE WHEN reused_from IS NULL THEN coalesce(completion_tokens, 0) ELSE 0 END AS completion_tokens,
  (reused_from IS NOT NULL)::integer AS reused
FROM jobs
WHERE generation > 0;

INSERT INTO leader_leases (role) VALUES ('reuse') ON CONFLICT DO NOTHING;

GRANT SELECT, INSERT, UPDATE ON twins TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON twins TO charonia_dispatcher;
GRANT INSERT ON shared_outputs TO charonia_gateway, charonia_dispatcher;
GRANT INSERT ON jobs TO charonia_gateway;
GRANT SELECT ON job_facts TO charonia_dispatcher;

-- The jobs that wait for a twin, by key, oldest first.
SET lock_timeout = '60s';
DROP INDEX CONCURRENTLY IF EXISTS jobs_joined;
CREATE INDEX CONCURRENTLY jobs_joined ON live_jobs (tenant_id, reuse_key, id)
  WHERE reuse_key IS NOT NULL AND scheduled_at = 'infinity';
