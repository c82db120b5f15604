-- The schema of Charonia, from the first table to the last.
--
-- Ids are UUIDv7, so primary keys sort by time. All times come from the database's clock, never from a service's.
--
-- Payloads whose bytes matter are bytea: jsonb reorders keys, drops duplicates and refuses NUL.
--
-- About the partial indexes: on a big table the statistics of the few queued or pending rows are always out of date. The
-- planner takes such an index for almost empty, and would rather read all of it than look up ids. So each partial index
-- has a condition that only its own queries imply.


-- Tenants and keys ----------------------------------------------------------------------------------------------------

CREATE TABLE tenants (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 100),
  webhook_secret bytea NOT NULL, -- encrypted; signs the callbacks of single jobs
  max_queued integer CHECK (max_queued >= 0), -- jobs that may wait; NULL: the gateway's setting
  paused_at timestamptz, -- since then no job of the tenant starts; NULL: they start
  retention double precision CHECK (retention > 0), -- seconds its ended jobs are kept at most; NULL: the dispatchers' setting
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tenants_paused ON tenants (id) WHERE paused_at IS NOT NULL;

CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  name text NOT NULL,
  key_hash bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32), -- SHA-256; keys are random, so there is no salt
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz,
  expires_at timestamptz, -- refused since then; NULL: never
  scopes text[] NOT NULL DEFAULT '{submit,read,admin}'
    CHECK (cardinality(scopes) >= 1 AND scopes <@ '{submit,read,admin}'),
  models text[] CHECK (cardinality(models) >= 1), -- which it may run: patterns such as ocr*; NULL: every model
  rate_limit integer CHECK (rate_limit >= 0), -- requests a second; 0: no limit; NULL: the gateway's setting
  -- The keys that made it: the first was made by an operator, and each made the next. It shares the rate of the first, and is
  -- revoked with each.
  makers uuid[] NOT NULL DEFAULT '{}',
  last_used_at timestamptz -- to the minute
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id, id) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_by_expiry ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Revokes a tenant's key and those that it made, and returns them: none if there is no such key or it is revoked. It runs with
-- the rights of the owner: a gateway may revoke a key, but not make a revoked one valid again.
CREATE FUNCTION revoke_key_of(tenant uuid, key uuid) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  PERFORM FROM api_keys WHERE tenant_id = tenant AND id = key FOR UPDATE; -- it may be making a key right now
  RETURN QUERY
  UPDATE api_keys
  SET revoked_at = now()
  WHERE tenant_id = tenant AND (id = key OR key = ANY(makers)) AND revoked_at IS NULL
  RETURNING id;
END
$$;

-- One token bucket for each limited key, shared by all gateways. Most requests write it, so it is not in the WAL. After
-- a crash every bucket is full.
CREATE UNLOGGED TABLE rate_limits (
  key_id uuid PRIMARY KEY REFERENCES api_keys ON DELETE CASCADE,
  full_at timestamptz NOT NULL -- when the bucket is full again
) WITH (fillfactor = 50);


-- Models --------------------------------------------------------------------------------------------------------------

-- When each dispatcher last said that it lives, which it does every two seconds. A dead or frozen one says nothing.
CREATE TABLE dispatchers (
  worker text PRIMARY KEY,
  seen_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- What each dispatcher's Triton can run: a row for each dispatcher and version. A dispatcher writes only its own rows. When
-- it is gone, its rows count as not ready. They are removed, but the last row of a version stays until the model is
-- retired: clients may submit jobs for a model that is away.
CREATE TABLE served_models (
  name text NOT NULL,
  version text NOT NULL,
  worker text NOT NULL, -- the dispatcher
  session bigint, -- the dispatcher's: its lock shows that the dispatcher lives; NULL: updated_at alone shows it
  ready boolean NOT NULL,
  decoupled boolean NOT NULL,
  max_batch_size integer NOT NULL CHECK (max_batch_size >= 0),
  instances integer NOT NULL CHECK (instances >= 1),
  slots integer NOT NULL CHECK (slots >= 1), -- jobs of the model that the dispatcher runs at a time
  inputs jsonb NOT NULL, -- [{name, datatype, shape with the batch dimension, optional}]
  outputs jsonb NOT NULL, -- [{name, datatype, shape with the batch dimension}]
  queue_ms double precision, -- how long recent requests waited in Triton's own queue, on average; NULL: there was none
  compute_ms double precision, -- how long Triton computed them, on average
  limited_by text, -- why the dispatcher now runs fewer jobs of the model at a time than it has slots; NULL: it does not
  described_at timestamptz NOT NULL DEFAULT now(), -- when the declaration last changed
  missing_since timestamptz, -- no reachable Triton has had the version since; NULL: one has it, or none is reachable
  updated_at timestamptz NOT NULL DEFAULT now(), -- a row that is not refreshed for 30 seconds is of a lost dispatcher
  PRIMARY KEY (name, version, worker)
);

-- What each dispatcher's Triton has in its repository and does not serve. GET /v1/models shows the reasons.
CREATE TABLE unloaded_models (
  name text NOT NULL,
  version text NOT NULL, -- '': Triton could not read which versions there are
  worker text NOT NULL, -- the dispatcher
  reason text NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(), -- a row that is not refreshed for 30 seconds is of a lost dispatcher
  PRIMARY KEY (name, version, worker)
);

-- What an operator set for a model. A model without a row runs as many jobs as its dispatchers have slots.
CREATE TABLE model_limits (
  model text PRIMARY KEY,
  max_running integer CHECK (max_running >= 1), -- jobs that run at a time, over all dispatchers
  max_running_per_tenant integer CHECK (max_running_per_tenant >= 1),
  paused_at timestamptz -- since then no job of the model starts; NULL: they start
);

-- The buckets beside the own store that an operator lets a tenant use, each below a folder or as a whole.
CREATE TABLE allowed_locations (
  tenant_id uuid NOT NULL REFERENCES tenants,
  bucket text NOT NULL,
  prefix text NOT NULL CHECK (prefix = '' OR prefix LIKE '%/'), -- of the keys
  can_read boolean NOT NULL,
  can_write boolean NOT NULL,
  PRIMARY KEY (tenant_id, bucket, prefix),
  CHECK (can_read OR can_write)
);

-- Whether each dispatcher lives. Gateways read this at most a second late, so everybody sees within ten seconds that a
-- dispatcher is dead or frozen.
CREATE VIEW dispatchers_now AS
SELECT worker, seen_at, seen_at > now() - interval '8 seconds' AS is_alive FROM dispatchers;

-- The models of each dispatcher, with whether it lives.
CREATE VIEW served_now AS
SELECT s.*, d.seen_at, coalesce(d.is_alive AND s.updated_at > now() - interval '30 seconds', false) AS is_alive
FROM served_models s
LEFT JOIN dispatchers_now d ON d.worker = s.worker;

-- Why versions do not run, as the dispatchers say that live. Nobody else clears the rows of one that is gone.
CREATE VIEW unloaded_now AS
SELECT u.*
FROM unloaded_models u
JOIN dispatchers_now d ON d.worker = u.worker
WHERE d.is_alive AND u.updated_at > now() - interval '30 seconds';

-- The catalogue: a version is ready if one dispatcher can run it. It is as a dispatcher declares it that can run it now.
-- If such dispatchers differ, the newest declaration counts.
CREATE VIEW models AS
SELECT DISTINCT ON (name, version) name, version, is_ready AS ready, decoupled, max_batch_size, inputs, outputs
FROM (SELECT *, ready AND is_alive AS is_ready FROM served_now) served
ORDER BY name, version, is_ready DESC, described_at DESC, worker;

-- The last quarantine of each Python model whose process stalled, for the dispatchers of one Triton. One that is over
-- stays for a day: a dispatcher that missed it must still reject answers from before it.
CREATE TABLE quarantines (
  server text NOT NULL, -- the address of the Triton
  model text NOT NULL,
  number bigint NOT NULL DEFAULT 1 CHECK (number >= 1), -- counts the quarantines of this model
  began_at timestamptz NOT NULL DEFAULT now(),
  executions bigint, -- of the stalled process; one with fewer is another; NULL: not yet known
  ended_at timestamptz, -- NULL: the model is in quarantine
  reload_until timestamptz, -- a dispatcher reloads the model, or tries again then; NULL: none does, or it is loaded
  PRIMARY KEY (server, model)
);


-- History -------------------------------------------------------------------------------------------------------------

-- What has ended is history. It is kept in eight generations, which are partitions. All that ends now goes to the current
-- one. When everything in the oldest generation is old enough, it is emptied at once, without a search for rows, and used
-- again later. Generation 0 is no history: it has the jobs that wait or run, and the deliveries that are not finished.
CREATE TABLE generations (
  number smallint PRIMARY KEY CHECK (number BETWEEN 1 AND 8),
  began_at timestamptz, -- when it became the current one; NULL: it is empty
  ended_at timestamptz, -- when the next one did; NULL: it is the current one, or empty
  CONSTRAINT generations_end_after_begin CHECK (ended_at IS NULL OR began_at IS NOT NULL)
);
CREATE UNIQUE INDEX generations_one_is_current ON generations ((true)) WHERE began_at IS NOT NULL AND ended_at IS NULL;
INSERT INTO generations SELECT number, CASE number WHEN 1 THEN now() END FROM generate_series(1, 8) number;

-- Return the generation to which history goes now.
CREATE FUNCTION current_generation() RETURNS smallint
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT number FROM generations WHERE began_at IS NOT NULL AND ended_at IS NULL);
END
$$;

-- Add the generations of a table whose history has these indexes: pairs of a name and what follows the table in CREATE INDEX.
CREATE PROCEDURE add_generations(name text, primary_key text, indexes text[])
LANGUAGE plpgsql AS $$
DECLARE
  partition text;
BEGIN
  FOR number IN 1..8 LOOP
    partition := format('%s_%s', name, number);
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF %I (PRIMARY KEY (%s)) FOR VALUES IN (%s)', partition, name, primary_key, number
    );
    FOR index IN 1..coalesce(array_length(indexes, 1), 0) LOOP
      EXECUTE format('CREATE INDEX %I ON %I %s', format('%s_%s', indexes[index][1], number), partition, indexes[index][2]);
    END LOOP;
  END LOOP;
END
$$;


-- Pipelines -----------------------------------------------------------------------------------------------------------

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


-- Batches and jobs ----------------------------------------------------------------------------------------------------

-- The jobs of one batch call. They are committed with the batch, or not at all.
CREATE TABLE batches (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  total integer NOT NULL, -- items in the request
  accepted integer NOT NULL CHECK (accepted BETWEEN 1 AND total),
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz, -- when its last job ended; set once, even if a job is retried later
  traceparent text NOT NULL
);
CREATE INDEX batches_unfinished ON batches (id) WHERE finished_at IS NULL;
CREATE INDEX batches_by_finished_at ON batches (finished_at) WHERE finished_at IS NOT NULL;

-- A job with its inputs and, once it has succeeded, its outputs. It is in the live generation while it waits or runs. Its end
-- moves it to the current one. Without foreign keys: tenants stay, and batches go only after their jobs. Tests check what
-- else holds for each row (tests/support/database/checks.sql): a CHECK here costs each statement that writes a job.
CREATE TABLE jobs (
  id uuid NOT NULL,
  generation smallint NOT NULL DEFAULT 0,
  tenant_id uuid NOT NULL,
  batch_id uuid,
  model text NOT NULL,
  version text, -- the requested version; after success, the version that ran
  priority text NOT NULL, -- high, normal or low
  status text NOT NULL, -- queued, processing, canceling, succeeded, failed, canceled or expired
  attempt integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  claim bigint NOT NULL DEFAULT 0, -- the fence: each claim raises it, and nothing lowers it, unlike attempt
  interruptions integer NOT NULL DEFAULT 0, -- attempts in a row during which Triton or the dispatcher died
  probation double precision, -- seconds; a suspected poison job, until it runs this long; NULL: not
  input_bytes integer NOT NULL DEFAULT 0, -- of tensors (files included), parameters and metadata
  created_at timestamptz NOT NULL DEFAULT now(),
  run_at timestamptz NOT NULL DEFAULT now(), -- not claimed before
  scheduled_at timestamptz, -- a queued job waits until a sweeper finds that this time has come; NULL: claimable now
  started_at timestamptz,
  finished_at timestamptz,
  ended_xid xid8, -- the transaction that ended it, for the count of usage; NULL: there is nothing to count
  expires_at timestamptz, -- a job that has not started by then expires
  erased_at timestamptz, -- when a client erased the payload; the job never runs again
  lease_until timestamptz,
  worker text, -- which runs the job, or made its last attempt
  session bigint, -- the worker's: its lock shows that the worker lives; NULL: the lease alone shows it
  timeout double precision NOT NULL, -- seconds for one attempt
  initial_delay double precision NOT NULL, -- seconds before the first retry
  max_delay double precision NOT NULL, -- seconds
  fallback_model text,
  retain double precision, -- seconds it is kept after its end at most; NULL: as its tenant's other jobs
  error_code text,
  error_message text,
  error_retryable boolean,
  inference_ms double precision,
  traceparent text NOT NULL,
  -- Packed by common/tensors.py. Large ones are in files: CHARONIA_INLINE_INPUT_BYTES of contents are here at most, which
  -- is 1 MiB at most. Names and shapes come to it.
  tensors bytea COMPRESSION lz4 NOT NULL,
  parameters bytea, -- JSON object
  metadata bytea, -- JSON object
  callback_url text,
  callback_events text[],
  output_location text, -- s3://bucket/folder/; NULL: the outputs stay here
  input_files uuid[], -- the files that it reads, which are kept while it waits or runs; NULL: none
  outputs bytea COMPRESSION lz4, -- of a job that has succeeded: the JSON list of the API, without the URLs of files
  output_file_bytes bigint NOT NULL DEFAULT 0, -- of the outputs that are in files
  parent uuid, -- the run of a step's job
  step text, -- the step's name in the pipeline
  step_index integer, -- the element of `for_each`, from 0; 0 of a step without it
  raw_outputs bytea COMPRESSION lz4, -- of a step's job that has succeeded: packed by common/tensors.py
  run_state bytea, -- of a run: JSON, common/pipelines/run_state.py
  CONSTRAINT jobs_live_until_end CHECK ((generation <= 0) = (finished_at IS NULL))
) PARTITION BY LIST (generation);

CREATE TABLE live_jobs PARTITION OF jobs (PRIMARY KEY (id)) FOR VALUES IN (0) WITH (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.05 -- sweeps and claims walk over the dead entries of what was due before
);

-- A run of a pipeline is a job. It lives in a partition of its own, where no dispatcher looks for jobs to claim. Its steps
-- are ordinary jobs. `lease_until` of a run is its deadline.
CREATE TABLE live_runs PARTITION OF jobs (PRIMARY KEY (id)) FOR VALUES IN (-1) WITH (fillfactor = 50);
CREATE INDEX runs_scheduled ON live_runs (scheduled_at) WHERE scheduled_at IS NOT NULL;
CREATE INDEX runs_by_deadline ON live_runs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX runs_by_input_file ON live_runs USING gin (input_files) WHERE input_files IS NOT NULL;
CREATE INDEX runs_of_batch ON live_runs (batch_id, status) WHERE batch_id IS NOT NULL;
CREATE INDEX runs_by_tenant ON live_runs (tenant_id, created_at, id, model) INCLUDE (input_bytes, priority, run_at);

-- Return until when (in UTC) a job with a retention of its own is kept. It is never NULL, so it implies no other partial
-- index.
CREATE FUNCTION kept_until(finished_at timestamptz, retain double precision) RETURNS timestamp
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(timezone('UTC', finished_at) + make_interval(secs => retain), 'infinity')
$$;

-- For claims. A claim skips from tenant to tenant in this index, so one tenant's long queue costs nothing.
CREATE INDEX jobs_claimable ON live_jobs (model, priority, tenant_id, id) WHERE status = 'queued' AND scheduled_at IS NULL;

-- For sweepers.
CREATE INDEX jobs_scheduled ON live_jobs (scheduled_at) WHERE scheduled_at IS NOT NULL AND probation IS NULL;
CREATE INDEX jobs_by_expiry ON live_jobs (expires_at)
  WHERE expires_at IS NOT NULL AND started_at IS NULL AND finished_at IS NULL;
CREATE INDEX jobs_by_lease ON live_jobs (lease_until) WHERE lease_until IS NOT NULL;

-- Jobs that may be what kills Triton or dispatchers (services/dispatcher/retry_policy.py) are on probation: of a model's, only one
-- is claimable or running. The others stay scheduled.
CREATE UNIQUE INDEX jobs_one_on_probation ON live_jobs (model)
  WHERE probation IS NOT NULL AND finished_at IS NULL AND scheduled_at IS NULL;
CREATE INDEX jobs_on_probation ON live_jobs (scheduled_at)
  WHERE probation IS NOT NULL AND finished_at IS NULL AND scheduled_at IS NOT NULL;

-- Jobs that became suspects and did not succeed. They are evidence against their tenant if they were interrupted again, and
-- that counted: another tenant's job may have caused what was given back. A canceled one is evidence too: nobody sees any
-- more whether it would have stopped Triton again.
CREATE INDEX jobs_crashed_as_suspects ON live_jobs (model, tenant_id) WHERE interruptions >= 3 AND status <> 'succeeded';

-- The tenants of which three jobs of a model are such evidence within ten minutes. Until one of their jobs of that model
-- succeeds, all are suspects. After each crash none begins for a while, twice as long each time, a minute at most. So one
-- tenant stops Triton only so often. The success shows that the fault is over, which may have been Triton's own.
CREATE VIEW tenants_on_probation AS
SELECT tenant_id, model, crashed_at + make_interval(secs => least(60, 15 * 2 ^ least(count - 3, 2))) AS resumes_at
FROM (
  SELECT tenant_id, model, count(*) AS count, max(coalesce(finished_at, started_at)) AS crashed_at
  FROM jobs
  WHERE interruptions >= 3 AND status <> 'succeeded' AND model >= '' -- fits an index
    AND (
      status = 'canceled'
      OR interruptions >= 4 AND attempt > (lease_until IS NOT NULL)::integer -- one that has ended, and was not given back
    )
    AND coalesce(finished_at, started_at) > now() - interval '10 minutes'
  GROUP BY tenant_id, model
  HAVING count(*) >= 3
) crashed
WHERE NOT EXISTS (
  SELECT
  FROM jobs j
  WHERE j.generation > 0 AND j.tenant_id = crashed.tenant_id AND j.finished_at > crashed_at AND j.finished_at > '-infinity'
    AND j.finished_at < crashed_at + interval '2 minutes' -- so that this never reads much
    AND j.status = 'succeeded' AND j.model = crashed.model
);

-- For the depths and the limits of models' queues.
CREATE INDEX jobs_in_queue ON live_jobs (model, priority, id) WHERE finished_at IS NULL AND lease_until IS NULL;

-- For lists, newest first, and for the limits of tenants. Each change of a job writes it into every index whose condition
-- it meets. So none of these holds a job that runs: one holds it while it waits, three others after its end. Few jobs run
-- at a time. A list of one model reads past the entries of a tenant's other models, up to the limit of its queue: 0.2 s
-- for a million. Ended jobs may be many more, so they have an index for it. No list has the jobs of steps, which may be
-- thousands of one run.
CREATE INDEX jobs_waiting ON live_jobs (tenant_id, created_at, id, model) INCLUDE (input_bytes, priority, run_at)
  WHERE finished_at IS NULL AND lease_until IS NULL;

CALL add_generations('jobs', 'id', ARRAY[
  [
    'jobs_ended',
    $$(tenant_id, status, created_at, id)
      WHERE status IN ('succeeded', 'failed', 'canceled', 'expired') AND parent IS NULL$$
  ],
  [
    'jobs_ended_of_model',
    $$(tenant_id, model, status, created_at, id)
      WHERE status IN ('succeeded', 'failed', 'canceled', 'expired') AND parent IS NULL$$
  ],
  ['jobs_by_end', $$(tenant_id, finished_at) WHERE finished_at > '-infinity'$$], -- for the statistics of tenants
  ['jobs_dead_letters', $$(tenant_id, id) WHERE status = 'failed' AND erased_at IS NULL AND parent IS NULL$$],
  ['jobs_by_ended_xid', '(ended_xid) WHERE ended_xid IS NOT NULL'], -- for the count of usage
  ['jobs_retained', '(kept_until(finished_at, retain), id) WHERE retain IS NOT NULL'],
  ['jobs_crashed_as_suspects', $$(model, tenant_id) WHERE interruptions >= 3 AND status <> 'succeeded'$$],
  ['jobs_of_batch', '(batch_id, status) WHERE batch_id IS NOT NULL'],
  ['jobs_of_run', '(parent, step, step_index) WHERE parent IS NOT NULL'] -- for the outputs of steps
]);
CREATE INDEX jobs_of_batch ON live_jobs (batch_id, status) WHERE batch_id IS NOT NULL;
CREATE INDEX jobs_of_run ON live_jobs (parent, step, step_index) WHERE parent IS NOT NULL;
CREATE INDEX jobs_by_input_file ON live_jobs USING gin (input_files) WHERE input_files IS NOT NULL;

-- Jobs without their inputs and outputs, but with the sizes of these.
CREATE VIEW job_facts AS
SELECT
  id, generation, tenant_id, batch_id, model, version, priority, status, attempt, max_attempts, claim, interruptions, probation, input_bytes,
  created_at, run_at, scheduled_at, started_at, finished_at, ended_xid, expires_at, erased_at, lease_until, worker, session,
  timeout, initial_delay, max_delay, fallback_model, retain, error_code, error_message, error_retryable, inference_ms,
  traceparent, metadata, octet_length(tensors) AS tensors_size, octet_length(outputs) AS outputs_size,
  callback_url IS NOT NULL AS has_callback, parent, step, step_index, run_state
FROM jobs;


-- Return how many of the wanted jobs of a model may start now, over all dispatchers, and the tenants that may start none:
-- paused ones, and those at the model's limit. If the model has a limit, `tenants` run as many jobs as `running` says.
CREATE FUNCTION model_room(
  model text, wanted integer, OUT jobs integer, OUT per_tenant integer, OUT closed uuid[], OUT tenants uuid[],
  OUT running integer[]
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  own model_limits;
BEGIN
  SELECT * INTO own FROM model_limits l WHERE l.model = model_room.model;
  jobs := CASE WHEN own.paused_at IS NULL THEN wanted ELSE 0 END;
  per_tenant := own.max_running_per_tenant;
  closed := ARRAY(SELECT id FROM tenants WHERE paused_at IS NOT NULL);
  IF jobs > 0 AND (own.max_running IS NOT NULL OR per_tenant IS NOT NULL) THEN
    SELECT
      array_agg(busy.tenant_id), array_agg(busy.jobs),
      greatest(0, least(wanted, own.max_running - coalesce(sum(busy.jobs), 0)))
    INTO tenants, running, jobs
    FROM (
      SELECT j.tenant_id, count(*)::integer AS jobs
      FROM live_jobs j
      WHERE j.lease_until > '-infinity' AND j.model = model_room.model -- reads jobs_by_lease: all that runs
      GROUP BY j.tenant_id
    ) busy;
    closed := closed || ARRAY(SELECT b.id FROM unnest(tenants, running) AS b(id, jobs) WHERE b.jobs >= per_tenant);
  END IF;
END
$$;

-- Return the tenants with claimable jobs of a model and a priority in the order of their turns: those after a tenant, those
-- before it, then itself. Return `count` at most, and none that is closed. Each costs one probe of jobs_claimable.
CREATE FUNCTION waiting_tenants(model text, priority text, after uuid, count integer, closed uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
  tenant uuid;
  previous uuid := after;
  wrapped boolean := false;
BEGIN
  WHILE count > 0 LOOP
    SELECT j.tenant_id INTO tenant
    FROM live_jobs j
    WHERE j.model = waiting_tenants.model AND j.priority = waiting_tenants.priority AND j.tenant_id > previous
      AND j.status = 'queued' AND j.scheduled_at IS NULL
    ORDER BY j.tenant_id, j.id
    LIMIT 1;
    IF FOUND AND NOT (wrapped AND tenant > after) THEN
      previous := tenant;
      CONTINUE WHEN tenant = ANY(closed);
      RETURN NEXT tenant;
      count := count - 1;
    ELSIF wrapped THEN
      RETURN;
    ELSE
      wrapped := true;
      previous := '00000000-0000-0000-0000-000000000000';
    END IF;
  END LOOP;
END
$$;

-- Return the first claimable jobs of a tenant in their order, at most `count`. The statement that calls it is planned with
-- it, so it costs nothing.
CREATE FUNCTION claimable_jobs(model text, priority text, tenant uuid, count integer)
RETURNS TABLE (id uuid, suspected boolean, place bigint)
LANGUAGE sql STABLE AS $$
  SELECT first.id, first.suspected, row_number() OVER (ORDER BY first.id)
  FROM (
    SELECT j.id, j.probation IS NOT NULL AS suspected
    FROM live_jobs j
    WHERE j.model = claimable_jobs.model AND j.priority = claimable_jobs.priority AND j.tenant_id >= tenant
      AND j.tenant_id <= tenant AND j.status = 'queued' AND j.scheduled_at IS NULL
      AND (j.expires_at IS NULL OR j.expires_at > now() OR j.started_at IS NOT NULL)
    ORDER BY j.tenant_id, j.id -- so that the primary key's order is of no use
    LIMIT count
  ) first
$$;

-- The items of a batch call in the order submitted, each with what became of it. A row stays until its batch is removed, so
-- that lines of the results keep their places.
CREATE TABLE batch_items (
  batch_id uuid NOT NULL REFERENCES batches ON DELETE CASCADE,
  index integer NOT NULL CHECK (index >= 0), -- from 0
  job_id uuid, -- no foreign key: the job may be removed first
  custom_id text, -- the client's name for the item
  problem bytea COMPRESSION lz4, -- why it was refused, as JSON: ItemProblem in services/gateway/batches
  PRIMARY KEY (batch_id, index),
  CONSTRAINT batch_items_job_or_problem CHECK (num_nonnulls(job_id, problem) = 1)
);

-- The outcome of each attempt at a job before the one that ended it. That one is in the row of the job. Attempts in a row
-- that Triton refused with the same error share a row, so a job that waits for a full queue does not gather rows.
CREATE TABLE job_attempts (
  job_id uuid NOT NULL,
  generation smallint NOT NULL DEFAULT current_generation(),
  claim bigint NOT NULL, -- of the last one, if the row stands for several
  count integer NOT NULL DEFAULT 1 CHECK (count >= 1), -- how many attempts the row stands for
  attempt integer NOT NULL, -- the number of the attempt; a returned attempt's number is used again
  model text NOT NULL,
  worker text NOT NULL,
  due_at timestamptz NOT NULL, -- the job's run_at before the attempt: until then it backed off or was scheduled
  started_at timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  status text NOT NULL CHECK (status IN ('succeeded', 'failed', 'canceled', 'returned')), -- returned: does not count
  error_code text,
  error_message text
) PARTITION BY LIST (generation);
CALL add_generations('job_attempts', 'job_id, claim', '{}');

-- All attempts that have ended.
CREATE VIEW ended_attempts AS
SELECT job_id, claim, count, attempt, model, worker, due_at, started_at, finished_at, status, error_code, error_message
FROM job_attempts
UNION ALL
SELECT id, claim, 1, attempt, model, worker, run_at, started_at, greatest(started_at, finished_at), status, error_code,
       error_message
FROM jobs
WHERE lease_until IS NULL AND worker IS NOT NULL; -- an ended job; written so that no partial index fits

-- The rest of a job's history, in the order of (claim, number): each response of a streaming model (1, 2, …), a cancel
-- request, a retry.
CREATE TABLE job_steps (
  job_id uuid NOT NULL,
  generation smallint NOT NULL DEFAULT current_generation(),
  claim bigint NOT NULL,
  number integer NOT NULL,
  type text NOT NULL, -- job.output, job.canceling or job.queued
  created_at timestamptz NOT NULL DEFAULT now(),
  outputs bytea COMPRESSION lz4 -- as in jobs
) PARTITION BY LIST (generation);
CALL add_generations('job_steps', 'job_id, claim, number', '{}');

-- Files: those of clients, and large inputs and outputs of jobs. The content is an object in the store
-- (common/object_store), with the tenant and the id in its key. A row is written before its object, and removed after it,
-- so no object is without a row.
CREATE TABLE files (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  status text NOT NULL DEFAULT 'uploading' CHECK (status IN ('uploading', 'ready', 'deleting')),
  content_type text NOT NULL,
  size bigint NOT NULL CHECK (size >= 0), -- of an upload: as announced, or so far
  sha256 bytea, -- once it is known; of a presigned upload: as its client says
  kept double precision NOT NULL CHECK (kept > 0), -- seconds, from the end of the upload
  created_at timestamptz NOT NULL DEFAULT now(), -- of a file: when its upload was complete
  -- When a sweeper deletes it. An upload moves it on; of a deletion: when it is tried again. Infinity: with its job.
  expires_at timestamptz NOT NULL,
  -- Until then a presigned URL may write the object. NULL: only services do. -infinity: its size was checked afterwards.
  writable_until timestamptz,
  -- The job whose input or output it is; NULL: it is a client's. A sweeper looks for those whose job is gone.
  job_id uuid,
  CONSTRAINT files_ready_is_whole CHECK (status <> 'ready' OR sha256 IS NOT NULL OR writable_until IS NOT NULL),
  CONSTRAINT files_of_job_stay CHECK ((job_id IS NULL) = (expires_at < 'infinity'))
);
CREATE INDEX files_by_tenant ON files (tenant_id, created_at DESC, id DESC) INCLUDE (size, status, job_id);
CREATE INDEX files_by_expiry ON files (expires_at); -- for sweepers
CREATE INDEX files_unchecked ON files (writable_until) WHERE status = 'ready' AND writable_until > '-infinity';
CREATE INDEX files_of_job ON files (job_id, id) WHERE job_id IS NOT NULL;

-- How far the search for objects of files without a row is. It goes from tenant to tenant, pass after pass.
CREATE TABLE orphan_sweep (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  swept_until uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', -- the last tenant that this pass is done with
  began_at timestamptz NOT NULL DEFAULT '-infinity' -- of this pass
);
INSERT INTO orphan_sweep DEFAULT VALUES;

-- The names that clients gave to submits and batches. For a day the same name means the same job or batch, whatever
-- became of it. The row and the repeated request together hold all that the first answer said.
CREATE TABLE idempotency_keys (
  tenant_id uuid NOT NULL REFERENCES tenants,
  key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32), -- SHA-256 of the request
  job_id uuid,
  batch_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  run_at timestamptz, -- the job's, as first answered
  expires_at timestamptz, -- the job's, as first answered
  traceparent text NOT NULL,
  answer bytea COMPRESSION lz4, -- the batch's, as JSON: BatchAnswer in services/gateway/batches
  PRIMARY KEY (tenant_id, key),
  CONSTRAINT idempotency_keys_job_or_batch CHECK (num_nonnulls(job_id, batch_id) = 1),
  CONSTRAINT idempotency_keys_run_at_of_job CHECK (num_nulls(job_id, run_at) IN (0, 2)),
  CONSTRAINT idempotency_keys_answer_of_batch CHECK (num_nulls(batch_id, answer) IN (0, 2))
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);


-- Events --------------------------------------------------------------------------------------------------------------

-- Return the patterns that match an event type (`job.succeeded`): five, because it has two words.
CREATE FUNCTION event_patterns(type text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ARRAY[type, split_part(type, '.', 1) || '.*', '*.' || split_part(type, '.', 2), '*.*', '*']
$$;

-- Return the scheme, host and port of a URL.
CREATE FUNCTION url_origin(url text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT lower(substring(url FROM '^[^/]*//[^/?#]*'))
$$;

-- Operational events belong to no job.
CREATE TABLE events (
  id uuid NOT NULL,
  generation smallint NOT NULL DEFAULT current_generation(),
  tenant_id uuid NOT NULL,
  job_id uuid,
  about_job_id uuid, -- the job of an operational event; the body may quote a receiver, so it is erased with the job
  model text,
  claim bigint, -- the claim under which the job ended
  sequence bigint, -- its place among the events of its job; NULL: it belongs to none
  type text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  body bytea NOT NULL, -- the webhook's body, byte for byte
  callback_url text, -- of its job's callback, if that wants such events
  traceparent text NOT NULL,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id() -- the transaction that recorded it, for the order of the feed
) PARTITION BY LIST (generation);
CALL add_generations('events', 'id', ARRAY[
  ['events_in_feed', '(tenant_id, xid, id)'],
  ['events_by_job', '(job_id) WHERE job_id IS NOT NULL'],
  ['events_about_job', '(about_job_id) WHERE about_job_id IS NOT NULL']
]);


-- Usage ---------------------------------------------------------------------------------------------------------------

-- What tenants used, by day (UTC) and model of the ends of jobs. A job that is retried ends again, and counts again: see
-- services/dispatcher/maintenance/usage/queries.sql.
CREATE TABLE usage (
  tenant_id uuid NOT NULL REFERENCES tenants,
  day date NOT NULL,
  model text NOT NULL,
  succeeded bigint NOT NULL,
  failed bigint NOT NULL,
  canceled bigint NOT NULL,
  expired bigint NOT NULL,
  inference_seconds double precision NOT NULL, -- of the attempts that succeeded
  bytes_in bigint NOT NULL, -- of tensors, parameters and metadata
  bytes_out bigint NOT NULL, -- of outputs, as JSON and in files
  PRIMARY KEY (tenant_id, day, model)
);

-- How far the ends of jobs are in `usage`: those of every transaction before this one. The count writes nothing for a
-- single job, and a job is not removed before it is counted.
CREATE TABLE usage_progress (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  counted_before xid8 NOT NULL DEFAULT '0'
);
INSERT INTO usage_progress DEFAULT VALUES;

-- What the jobs that have ended used, for sums of it.
CREATE VIEW ended_usage AS
SELECT
  id, ended_xid, tenant_id, timezone('UTC', finished_at)::date AS day, model,
  (status = 'succeeded')::integer AS succeeded, (status = 'failed')::integer AS failed,
  (status = 'canceled')::integer AS canceled, (status = 'expired')::integer AS expired,
  coalesce(inference_ms, 0) / 1000 AS inference_seconds, input_bytes AS bytes_in,
  coalesce(octet_length(outputs), 0) + output_file_bytes AS bytes_out
FROM jobs
WHERE generation > 0;

-- Add the ends of these jobs to `usage`, as far as they are not counted: a retry is about to hide them. A count that runs
-- is waited for: services/dispatcher/maintenance/usage/queries.sql takes the same lock. Transactions of the future are
-- those of a dump from a server with larger ids, and their ends are counted. The function runs with the rights of the
-- owner, because gateways retry jobs, and may not write usage.
CREATE FUNCTION count_before_retry(retried uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  PERFORM FROM ended_usage WHERE id = ANY(retried) AND ended_xid >= (SELECT counted_before FROM usage_progress);
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock_shared(1431519559);
  INSERT INTO usage AS u (tenant_id, day, model, succeeded, failed, canceled, expired, inference_seconds, bytes_in,
                          bytes_out)
  SELECT tenant_id, day, model, sum(succeeded), sum(failed), sum(canceled), sum(expired), sum(inference_seconds),
         sum(bytes_in), sum(bytes_out)
  FROM ended_usage
  WHERE id = ANY(retried) AND ended_xid >= (SELECT counted_before FROM usage_progress)
    AND ended_xid < pg_snapshot_xmax(pg_current_snapshot())
  GROUP BY tenant_id, day, model
  ORDER BY tenant_id, day, model
  ON CONFLICT (tenant_id, day, model) DO UPDATE
  SET succeeded = u.succeeded + excluded.succeeded,
      failed = u.failed + excluded.failed,
      canceled = u.canceled + excluded.canceled,
      expired = u.expired + excluded.expired,
      inference_seconds = u.inference_seconds + excluded.inference_seconds,
      bytes_in = u.bytes_in + excluded.bytes_in,
      bytes_out = u.bytes_out + excluded.bytes_out;
END
$$;


-- Webhooks, endpoints, deliveries -------------------------------------------------------------------------------------

CREATE TABLE webhooks (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  url text NOT NULL,
  events text[] NOT NULL CHECK (cardinality(events) >= 1), -- patterns such as job.*
  models text[], -- NULL: every model
  description text,
  headers bytea, -- encrypted JSON object
  signing text NOT NULL CHECK (signing IN ('hmac', 'ed25519')),
  secret bytea NOT NULL, -- encrypted
  created_at timestamptz NOT NULL DEFAULT now(),
  disabled_at timestamptz,
  disabled_reason text CHECK (disabled_reason IN ('gone', 'failing', 'manual')),
  CONSTRAINT webhooks_disabled_for_a_reason CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant_id, id);
CREATE INDEX webhooks_disabled ON webhooks (disabled_at) WHERE disabled_reason <> 'manual'; -- for metrics

-- Secrets that still sign beside the new one for a while after a rotation.
CREATE TABLE old_secrets (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  webhook_id uuid REFERENCES webhooks ON DELETE CASCADE, -- NULL: the tenant's own secret
  secret bytea NOT NULL, -- encrypted
  until timestamptz NOT NULL
);
CREATE INDEX old_secrets_by_owner ON old_secrets (webhook_id, tenant_id);

-- Where deliveries go: one row for each subscription, under its id, and one for each origin of a tenant's callbacks. The
-- row holds the health of the receiver, so a failing receiver delays nobody else.
CREATE TABLE endpoints (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  webhook_id uuid UNIQUE REFERENCES webhooks ON DELETE CASCADE CHECK (webhook_id = id),
  origin text, -- scheme, host and port
  rate_limit integer CHECK (rate_limit >= 0), -- attempts a second; 0 or NULL: no limit
  ordered boolean NOT NULL DEFAULT false, -- a later event of a job waits for the earlier one
  next_at timestamptz, -- when to look for due deliveries; NULL: there are none
  rate_limited_until timestamptz, -- no attempt before
  failures integer NOT NULL DEFAULT 0, -- failed attempts in a row
  failing_since timestamptz, -- the first of them
  open_until timestamptz, -- the circuit is open: no attempt before, then one at a time until one succeeds
  -- The subscription was disabled then. A notifier still has to cancel deliveries whose schedule began before, and
  -- meanwhile it sends only tests and redeliveries. `infinity`: the subscription was deleted, and a notifier still has
  -- to delete the deliveries. NULL: nothing is left to do.
  cancel_before timestamptz,
  UNIQUE (tenant_id, origin),
  CONSTRAINT endpoints_webhook_or_origin
    CHECK (num_nonnulls(webhook_id, origin) = CASE cancel_before WHEN 'infinity' THEN 0 ELSE 1 END),
  CONSTRAINT endpoints_failing_since_first_failure CHECK ((failures > 0) = (failing_since IS NOT NULL)),
  CONSTRAINT endpoints_open_after_failures CHECK (open_until IS NULL OR failures > 0)
) WITH (fillfactor = 70);
CREATE INDEX endpoints_by_due ON endpoints (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX endpoints_open ON endpoints (open_until) WHERE open_until IS NOT NULL; -- for metrics
CREATE INDEX endpoints_canceling ON endpoints (cancel_before) WHERE cancel_before IS NOT NULL;

-- Return a UUIDv7 with the time of `id` and a hash of both ids.
CREATE FUNCTION derive_id(id uuid, other uuid) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT overlay(overlay(left(encode(sha256(uuid_send(id) || uuid_send(other)), 'hex'), 32)
    PLACING left(translate(id::text, '-', ''), 12) || '7' FROM 1) PLACING '8' FROM 17)::uuid
$$;

-- One for each event and receiver. Its id is the webhook-id of every attempt. A new delivery is pending without a due time
-- until a notifier takes it. It is live until it is finished, and then belongs to the generation of its event. Whoever adds
-- one has locked its endpoint, so that this is not deleted meanwhile.
CREATE TABLE deliveries (
  id uuid NOT NULL, -- derive_id(event_id, endpoint_id); a generated column would be computed by each update too
  generation smallint NOT NULL DEFAULT 0,
  event_id uuid NOT NULL,
  event_generation smallint NOT NULL, -- that of its event, to which it goes at its end
  event_type text NOT NULL,
  tenant_id uuid NOT NULL,
  job_id uuid,
  endpoint_id uuid NOT NULL,
  webhook_id uuid, -- NULL: the job's own callback; no foreign key, because its endpoint has one
  url text NOT NULL,
  status text NOT NULL DEFAULT 'pending', -- pending, succeeded, exhausted or canceled
  attempt integer NOT NULL DEFAULT 0, -- attempts made or under way
  next_at timestamptz, -- when it is due; a claim sets it behind the lease, so it is due again when the lease lapses
  schedule_started_at timestamptz NOT NULL DEFAULT now(), -- when its retry schedule began, or began again
  tries integer NOT NULL DEFAULT 0, -- attempts since then, without those that failed on our side
  lease_until timestamptz, -- an attempt is under way until then
  traceparent text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  -- The attempt that ended it, number `attempt`. The table `attempts` has those before it.
  started_at timestamptz,
  duration_ms double precision,
  status_code integer,
  error text,
  response bytea,
  CONSTRAINT deliveries_live_until_end CHECK ((generation = 0) = (finished_at IS NULL))
) PARTITION BY LIST (generation);
CREATE TABLE live_deliveries PARTITION OF deliveries (PRIMARY KEY (id)) FOR VALUES IN (0)
  WITH (autovacuum_vacuum_scale_factor = 0.05); -- as for jobs
CREATE INDEX deliveries_new ON live_deliveries (tenant_id, created_at) WHERE status = 'pending' AND next_at IS NULL;
CREATE INDEX deliveries_by_due ON live_deliveries (endpoint_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_in_flight ON live_deliveries (endpoint_id, lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX deliveries_by_event ON live_deliveries (event_id);
CREATE INDEX deliveries_by_endpoint ON live_deliveries (endpoint_id, id);
CALL add_generations('deliveries', 'id', ARRAY[
  ['deliveries_by_event', '(event_id)'],
  ['deliveries_by_endpoint', '(endpoint_id, id)']
]);

-- When the oldest new delivery of each tenant was created. Each step finds the next tenant in the index, so a tenant with
-- many new deliveries costs as little as one with a single one.
CREATE VIEW oldest_new_deliveries AS
WITH RECURSIVE oldest AS (
  (
    SELECT tenant_id, created_at
    FROM live_deliveries
    WHERE status = 'pending' AND next_at IS NULL AND tenant_id > '00000000-0000-0000-0000-000000000000'
    ORDER BY tenant_id, created_at
    LIMIT 1
  )
  UNION ALL
  SELECT later.*
  FROM oldest
  CROSS JOIN LATERAL (
    SELECT d.tenant_id, d.created_at
    FROM live_deliveries d
    WHERE d.status = 'pending' AND d.next_at IS NULL AND d.tenant_id > oldest.tenant_id
    ORDER BY d.tenant_id, d.created_at
    LIMIT 1
  ) later
)
SELECT tenant_id, created_at FROM oldest;

-- Deliveries as clients see them: without those of deleted subscriptions, and canceled from the moment their subscription
-- was disabled. An attempt in flight may still end otherwise.
CREATE VIEW visible_deliveries AS
SELECT
  d.id, d.event_id, d.event_type, d.tenant_id, d.job_id, d.endpoint_id, d.webhook_id, d.url, d.created_at, d.traceparent,
  CASE WHEN canceling THEN 'canceled' ELSE d.status END AS status,
  CASE WHEN NOT canceling THEN d.next_at END AS next_at,
  CASE WHEN canceling THEN e.cancel_before ELSE d.finished_at END AS finished_at
FROM deliveries d
JOIN endpoints e ON e.id = d.endpoint_id
CROSS JOIN LATERAL (
  SELECT (
    d.next_at IS NOT NULL AND d.schedule_started_at < e.cancel_before AND (d.lease_until > now()) IS NOT TRUE
  ) IS TRUE AS canceling
) state
WHERE e.cancel_before IS DISTINCT FROM 'infinity';

-- Return when to look again at a delivery of an ordered endpoint: after the next attempt at an earlier event of its job.
-- Return NULL if it waits for none: one that clients see as canceled holds up no other. Derived ids find the deliveries
-- without an index of their own.
CREATE FUNCTION blocked_until(event uuid, endpoint uuid) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
  SELECT max(coalesce(d.next_at, now()))
  FROM events e
  JOIN events earlier ON earlier.job_id = e.job_id AND earlier.sequence < e.sequence
  JOIN live_deliveries d ON d.id = derive_id(earlier.id, endpoint)
  JOIN endpoints receiver ON receiver.id = d.endpoint_id
  WHERE e.id = event AND (
    d.next_at IS NOT NULL AND d.schedule_started_at < receiver.cancel_before AND (d.lease_until > now()) IS NOT TRUE
  ) IS NOT TRUE
$$;

-- The attempts of a delivery before its last, and those of a delivery that is not finished.
CREATE TABLE attempts (
  delivery_id uuid NOT NULL,
  generation smallint NOT NULL DEFAULT current_generation(),
  number integer NOT NULL,
  started_at timestamptz NOT NULL,
  duration_ms double precision NOT NULL,
  status_code integer,
  error text, -- an error from docs/reference/errors.md; NULL: success
  response bytea NOT NULL -- its first bytes
) PARTITION BY LIST (generation);
CALL add_generations('attempts', 'delivery_id, number', '{}');

-- Add the deliveries of new events, one for each receiver: the job's callback, and the tenant's matching subscriptions.
-- An event type has two words, so five patterns can match it. A test event brings its own delivery.
--
-- The locks keep receivers from being deleted meanwhile, and skip those that were. First comes the endpoint of each
-- callback: it is locked, or added if it is missing.
--
-- It runs with the rights of the owner: who writes an event needs none on webhooks, with their secrets, or deliveries.
CREATE FUNCTION add_deliveries() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF EXISTS (
    SELECT FROM new_events n
    WHERE callback_url IS NOT NULL AND NOT EXISTS (
      SELECT FROM endpoints e WHERE e.tenant_id = n.tenant_id AND e.origin = url_origin(n.callback_url) FOR KEY SHARE
    )
  ) THEN
    INSERT INTO endpoints (id, tenant_id, origin)
    SELECT derive_id(event_id, tenant_id), tenant_id, origin
    FROM (
      SELECT DISTINCT ON (2, 3) id AS event_id, tenant_id, url_origin(callback_url) AS origin
      FROM new_events
      WHERE callback_url IS NOT NULL
      ORDER BY 2, 3
    ) callback
    WHERE NOT EXISTS (
      SELECT FROM endpoints e WHERE e.tenant_id = callback.tenant_id AND e.origin = callback.origin FOR KEY SHARE
    )
    ON CONFLICT (tenant_id, origin) DO NOTHING;
  END IF;

  INSERT INTO live_deliveries (id, event_id, event_generation, event_type, tenant_id, job_id, endpoint_id, webhook_id, url,
                               traceparent)
  SELECT derive_id(e.id, r.endpoint_id), e.id, e.generation, e.type, e.tenant_id, e.job_id, r.endpoint_id, r.webhook_id,
         r.url, e.traceparent
  FROM new_events e
  CROSS JOIN LATERAL (
    SELECT w.id AS endpoint_id, w.id AS webhook_id, w.url
    FROM webhooks w
    WHERE w.tenant_id = e.tenant_id
      AND w.disabled_at IS NULL
      AND w.events && event_patterns(e.type)
      AND (w.models IS NULL OR e.model IS NULL OR e.model = ANY(w.models))
    UNION ALL
    SELECT known.id, NULL, e.callback_url
    FROM endpoints known
    WHERE known.tenant_id = e.tenant_id AND known.origin = url_origin(e.callback_url)
  ) r
  JOIN endpoints ON endpoints.id = r.endpoint_id AND endpoints.webhook_id IS NOT DISTINCT FROM r.webhook_id
  WHERE e.type <> 'webhook.test'
  ORDER BY r.endpoint_id
  FOR KEY SHARE OF endpoints;
  RETURN NULL;
END
$$;
CREATE TRIGGER add_deliveries AFTER INSERT ON events
  REFERENCING NEW TABLE AS new_events FOR EACH STATEMENT EXECUTE FUNCTION add_deliveries();

-- What sending a delivery now needs. Secrets (newest first) and headers are encrypted. Ages are in seconds.
CREATE VIEW delivery_requests AS
SELECT
  d.id, d.tenant_id, d.job_id, d.webhook_id, d.endpoint_id, d.event_type, d.tries,
  coalesce(w.url, d.url) AS url, -- a subscription's may have changed since
  w.headers, e.body, now() AS claimed_at,
  extract(epoch FROM now() - d.schedule_started_at)::double precision AS age,
  extract(epoch FROM now() - e.created_at)::double precision AS event_age,
  ARRAY[coalesce(w.secret, t.webhook_secret)] || ARRAY(
    SELECT old.secret
    FROM old_secrets old
    WHERE old.tenant_id = d.tenant_id AND old.webhook_id IS NOT DISTINCT FROM d.webhook_id AND old.until > now()
    ORDER BY old.id DESC
  ) AS secrets
FROM live_deliveries d
JOIN events e ON e.id = d.event_id
JOIN tenants t ON t.id = d.tenant_id
LEFT JOIN webhooks w ON w.id = d.webhook_id;

-- Endpoints whose new deliveries may be sent at once: those that are healthy, and have no rate limit, no order and
-- nothing due.
CREATE VIEW direct_endpoints AS
SELECT
  e.id, w.url, in_flight.attempts AS in_flight,
  (SELECT d.id FROM live_deliveries d WHERE d.endpoint_id = e.id AND d.next_at <= now() LIMIT 1) AS first_due
FROM endpoints e
LEFT JOIN webhooks w ON w.id = e.webhook_id
CROSS JOIN LATERAL (
  SELECT count(*) AS attempts FROM live_deliveries d WHERE d.endpoint_id = e.id AND d.lease_until > now()
) in_flight
WHERE e.failures = 0
  AND (e.rate_limit > 0) IS NOT TRUE
  AND e.cancel_before IS NULL
  AND NOT e.ordered
  AND (e.next_at <= now()) IS NOT TRUE
  AND w.disabled_at IS NULL;

-- A request to send again what failed in a time span. It goes on in small portions.
CREATE TABLE recoveries (
  id uuid PRIMARY KEY,
  webhook_id uuid NOT NULL REFERENCES webhooks ON DELETE CASCADE,
  since timestamptz NOT NULL,
  until timestamptz NOT NULL,
  last_delivery_id uuid, -- the last delivery it looked at; NULL at the start
  recovered integer NOT NULL DEFAULT 0,
  next_at timestamptz DEFAULT now(), -- when it goes on; NULL: it is done
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (until > since)
);
CREATE INDEX recoveries_by_due ON recoveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX recoveries_by_webhook ON recoveries (webhook_id);


-- Empty a generation of history, if it ended so many seconds ago or has not begun, and return whether it was. It waits for
-- the lock of each table for 0.05 s at most, and raises lock_not_available after that: whoever wants to read it next has to
-- wait as long. It runs with the rights of the owner.
CREATE FUNCTION empty_generation(emptied smallint, seconds double precision) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  PERFORM set_config('lock_timeout', '50ms', true);
  UPDATE generations
  SET began_at = NULL, ended_at = NULL
  WHERE number = emptied AND (began_at IS NULL OR ended_at <= now() - make_interval(secs => seconds));
  IF NOT FOUND THEN -- another dispatcher emptied it, and it is in use again
    RETURN false;
  END IF;
  EXECUTE format(
    'TRUNCATE jobs_%1$s, job_attempts_%1$s, job_steps_%1$s, events_%1$s, deliveries_%1$s, attempts_%1$s', emptied
  );
  RETURN true;
END
$$;


-- Audit log -----------------------------------------------------------------------------------------------------------

-- Who changed a tenant, a key, a webhook or the limits of a model. An entry is added in the transaction of its change, and
-- no service updates it. Dispatchers remove it after a time of its own.
CREATE TABLE audit_log (
  id uuid PRIMARY KEY,
  tenant_id uuid REFERENCES tenants, -- NULL: it concerns every tenant, and only operators see it
  at timestamptz NOT NULL DEFAULT clock_timestamp(), -- not now(): a change that waited for a lock comes after the other
  actor text NOT NULL, -- the public id of a key, a command of operators such as `keys revoke`, or a service
  action text NOT NULL, -- common/postgres/audit_log.py has the list; a later release may have more
  target text NOT NULL, -- a public id, or the name of a model
  changes jsonb NOT NULL CHECK (jsonb_typeof(changes) = 'object') -- the new value of each changed field; never a secret
);
CREATE INDEX audit_log_by_tenant ON audit_log (tenant_id, at, id);
CREATE INDEX audit_log_by_time ON audit_log (at, id); -- for operators, and to remove old entries


-- Housekeeping --------------------------------------------------------------------------------------------------------

-- Which process does what one does for all: see common/postgres/leadership.py. It renews its lease.
CREATE TABLE leader_leases (
  role text PRIMARY KEY,
  holder text, -- a random name of the process; NULL: there was none yet
  expires_at timestamptz NOT NULL DEFAULT '-infinity',
  is_fit boolean NOT NULL DEFAULT true -- false: the holder lacks what its work needs, so that another process may take over
);
INSERT INTO leader_leases (role) VALUES ('maintenance'), ('notifier');


-- Rights --------------------------------------------------------------------------------------------------------------

-- Each service has a role, and so have the commands of operators. A role has the rights that its statements need, and no
-- others: tests/integration/common/postgres/test_rights.py says what is missing, and what is not needed. The roles belong
-- to the whole server, so another database may have created them. The command that migrates lets them log in.
DO $$
DECLARE
  role text;
BEGIN
  FOREACH role IN ARRAY ARRAY['gateway', 'dispatcher', 'notifier', 'operator'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'charonia_' || role) THEN
        EXECUTE format('CREATE ROLE %I', 'charonia_' || role);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN -- another database's migration was faster
    END;
  END LOOP;
END
$$;

GRANT SELECT ON generations TO PUBLIC; -- for defaults
GRANT UPDATE ON generations TO charonia_dispatcher;
REVOKE ALL ON FUNCTION empty_generation FROM PUBLIC;
GRANT EXECUTE ON FUNCTION empty_generation TO charonia_dispatcher;
GRANT SELECT ON schema_migrations TO charonia_gateway, charonia_dispatcher, charonia_notifier, charonia_operator;

GRANT SELECT, INSERT, UPDATE (webhook_secret) ON tenants TO charonia_gateway;
GRANT SELECT (id, paused_at, retention) ON tenants TO charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE ON tenants TO charonia_operator;
GRANT SELECT, INSERT, UPDATE (last_used_at) ON api_keys TO charonia_gateway;
REVOKE ALL ON FUNCTION revoke_key_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION revoke_key_of TO charonia_gateway;
GRANT SELECT (id, expires_at), DELETE ON api_keys TO charonia_dispatcher; -- it removes expired ones
GRANT SELECT, INSERT, UPDATE ON api_keys TO charonia_operator;
GRANT SELECT, INSERT, UPDATE ON rate_limits TO charonia_gateway;

GRANT SELECT, INSERT, UPDATE, DELETE ON dispatchers TO charonia_dispatcher;
GRANT SELECT ON dispatchers_now, served_now, unloaded_now TO charonia_gateway;
GRANT SELECT ON models TO charonia_gateway, charonia_dispatcher, charonia_operator;
GRANT SELECT, INSERT, UPDATE, DELETE ON quarantines TO charonia_dispatcher;
GRANT SELECT ON usage TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE ON usage TO charonia_dispatcher;
GRANT SELECT ON ended_usage TO charonia_dispatcher;
GRANT SELECT, UPDATE ON usage_progress TO charonia_dispatcher;
GRANT SELECT, UPDATE ON orphan_sweep TO charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON served_models TO charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON unloaded_models TO charonia_dispatcher;
GRANT SELECT ON model_limits TO charonia_gateway;
GRANT SELECT ON tenants_on_probation TO charonia_dispatcher;
GRANT SELECT, UPDATE ON model_limits TO charonia_dispatcher; -- it locks rows
GRANT SELECT, INSERT, UPDATE, DELETE ON model_limits TO charonia_operator;
GRANT SELECT ON allowed_locations TO charonia_gateway, charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON allowed_locations TO charonia_operator;

GRANT SELECT, INSERT, UPDATE (deleted_at) ON pipelines TO charonia_gateway;
GRANT SELECT ON pipelines TO charonia_dispatcher;
GRANT SELECT, INSERT ON batches TO charonia_gateway;
GRANT SELECT, UPDATE, DELETE ON batches TO charonia_dispatcher;
GRANT SELECT, INSERT ON batch_items TO charonia_gateway;
GRANT SELECT, UPDATE ON jobs TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE ON live_jobs TO charonia_gateway;
GRANT SELECT, UPDATE, DELETE ON jobs TO charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE ON live_jobs TO charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE ON live_runs TO charonia_gateway;
GRANT SELECT, UPDATE ON live_runs TO charonia_dispatcher;
GRANT SELECT, UPDATE ON job_facts TO charonia_gateway; -- it locks rows
GRANT SELECT, INSERT, UPDATE ON job_attempts TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON job_attempts TO charonia_dispatcher;
GRANT SELECT ON ended_attempts TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE (generation), DELETE ON job_steps TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE (generation), DELETE ON job_steps TO charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE ON files TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON files TO charonia_dispatcher;
GRANT SELECT, UPDATE (status, expires_at, job_id) ON files TO charonia_operator; -- it compares them with the object store
GRANT SELECT, INSERT, UPDATE ON idempotency_keys TO charonia_gateway;
GRANT SELECT, DELETE ON idempotency_keys TO charonia_dispatcher;

GRANT SELECT, INSERT, UPDATE, DELETE ON events TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE ON events TO charonia_notifier;
GRANT SELECT, INSERT, UPDATE (generation), DELETE ON events TO charonia_dispatcher;

GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks TO charonia_gateway;
GRANT SELECT (tenant_id, events, disabled_at, disabled_reason) ON webhooks TO charonia_dispatcher;
GRANT SELECT, UPDATE ON webhooks TO charonia_notifier, charonia_operator;
GRANT SELECT, INSERT, DELETE ON old_secrets TO charonia_gateway;
GRANT SELECT, UPDATE, DELETE ON old_secrets TO charonia_notifier;
GRANT SELECT, UPDATE ON old_secrets TO charonia_operator;
GRANT SELECT, INSERT, UPDATE ON endpoints TO charonia_gateway;
GRANT SELECT ON endpoints TO charonia_dispatcher; -- for metrics
GRANT SELECT, UPDATE, DELETE ON endpoints TO charonia_notifier;
GRANT SELECT, UPDATE, DELETE ON deliveries TO charonia_gateway;
GRANT SELECT, INSERT, UPDATE ON live_deliveries TO charonia_gateway;
GRANT SELECT, UPDATE (generation, event_generation), DELETE ON deliveries TO charonia_dispatcher;
GRANT SELECT ON live_deliveries TO charonia_dispatcher; -- their events and jobs are kept
GRANT SELECT, UPDATE ON live_deliveries TO charonia_notifier;
GRANT SELECT, UPDATE, DELETE ON deliveries TO charonia_notifier;
GRANT SELECT ON visible_deliveries TO charonia_gateway;
GRANT SELECT ON oldest_new_deliveries TO charonia_dispatcher, charonia_notifier;
GRANT SELECT, INSERT, UPDATE (generation), DELETE ON attempts TO charonia_gateway, charonia_notifier;
GRANT SELECT, UPDATE (generation), DELETE ON attempts TO charonia_dispatcher;
GRANT SELECT ON delivery_requests, direct_endpoints TO charonia_notifier;
GRANT SELECT, INSERT ON recoveries TO charonia_gateway;
GRANT SELECT, UPDATE, DELETE ON recoveries TO charonia_notifier;

GRANT SELECT, INSERT ON audit_log TO charonia_gateway, charonia_operator; -- nobody updates it
GRANT INSERT ON audit_log TO charonia_notifier;
GRANT SELECT (id, at), DELETE ON audit_log TO charonia_dispatcher;

GRANT SELECT, UPDATE (holder, expires_at, is_fit) ON leader_leases TO charonia_dispatcher, charonia_notifier;
