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
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  name text NOT NULL,
  key_hash bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32), -- SHA-256; keys are random, so there is no salt
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz,
  scopes text[] NOT NULL DEFAULT '{submit,read,admin}'
    CHECK (cardinality(scopes) >= 1 AND scopes <@ '{submit,read,admin}'),
  rate_limit integer CHECK (rate_limit >= 0), -- requests a second; 0: no limit; NULL: the gateway's setting
  last_used_at timestamptz -- to the minute
);

-- One token bucket for each limited key, shared by all gateways. Most requests write it, so it is not in the WAL. After
-- a crash every bucket is full.
CREATE UNLOGGED TABLE rate_limits (
  key_id uuid PRIMARY KEY REFERENCES api_keys,
  full_at timestamptz NOT NULL -- when the bucket is full again
) WITH (fillfactor = 50);


-- Models --------------------------------------------------------------------------------------------------------------

-- What the Triton servers can run. Dispatchers write it, gateways read it.
CREATE TABLE models (
  name text NOT NULL,
  version text NOT NULL,
  ready boolean NOT NULL,
  decoupled boolean NOT NULL,
  max_batch_size integer NOT NULL CHECK (max_batch_size >= 0),
  instances integer NOT NULL CHECK (instances >= 1),
  inputs jsonb NOT NULL, -- [{name, datatype, shape with the batch dimension, optional}]
  outputs jsonb NOT NULL, -- [{name, datatype, shape with the batch dimension}]
  missing_since timestamptz, -- no reachable Triton has had the version since; NULL: one has it, or none is reachable
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, version)
);


-- Batches and jobs ----------------------------------------------------------------------------------------------------

-- The jobs of one batch call. They are committed with the batch, or not at all. The answer to the call names the items
-- that were rejected; they are not stored.
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

-- Narrow and hot. Data that is written once is in job_inputs and job_outputs.
CREATE TABLE jobs (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  batch_id uuid REFERENCES batches,
  model text NOT NULL,
  version text, -- the requested version; after success, the version that ran
  priority text NOT NULL CHECK (priority IN ('high', 'normal', 'low')),
  status text NOT NULL
    CHECK (status IN ('queued', 'processing', 'canceling', 'succeeded', 'failed', 'canceled', 'expired')),
  attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  max_attempts integer NOT NULL CHECK (max_attempts >= 1),
  claim bigint NOT NULL DEFAULT 0, -- the fence: each claim raises it, and nothing lowers it, unlike attempt
  interruptions integer NOT NULL DEFAULT 0, -- attempts that do not count, because Triton died during them
  created_at timestamptz NOT NULL DEFAULT now(),
  run_at timestamptz NOT NULL DEFAULT now(), -- not claimed before
  next_wake_up_at timestamptz, -- when a sweeper publishes a wake-up, if the job is still queued; at first this is run_at
  started_at timestamptz,
  finished_at timestamptz,
  expires_at timestamptz, -- a job that has not started by then expires
  erased_at timestamptz, -- when a client erased the payload; the job never runs again
  lease_until timestamptz,
  worker text,
  timeout double precision NOT NULL CHECK (timeout > 0), -- seconds for one attempt
  initial_delay double precision NOT NULL CHECK (initial_delay >= 0), -- seconds before the first retry
  max_delay double precision NOT NULL CHECK (max_delay >= initial_delay), -- seconds
  fallback_model text,
  error_code text,
  error_message text,
  error_retryable boolean,
  inference_ms double precision,
  traceparent text NOT NULL,
  CHECK (attempt <= max_attempts),
  CONSTRAINT jobs_lease_while_running CHECK ((status IN ('processing', 'canceling')) = (lease_until IS NOT NULL)),
  CONSTRAINT jobs_lease_has_worker CHECK ((lease_until IS NULL) = (worker IS NULL)),
  CONSTRAINT jobs_finished_when_terminal
    CHECK ((status IN ('succeeded', 'failed', 'canceled', 'expired')) = (finished_at IS NOT NULL)),
  CONSTRAINT jobs_wake_up_while_queued CHECK ((status = 'queued') = (next_wake_up_at IS NOT NULL)),
  CONSTRAINT jobs_error_when_failed CHECK (status <> 'failed' OR error_code IS NOT NULL),
  CONSTRAINT jobs_erased_after_end CHECK (erased_at IS NULL OR finished_at IS NOT NULL)
) WITH (
  fillfactor = 80,
  -- Sweeps and claims walk over the dead entries of what was due before. They took 1.5 ms for 300,000 jobs. With 10
  -- million rows the default lets a million dead entries gather.
  autovacuum_vacuum_scale_factor = 0.05
);

-- For claims. A claim skips from tenant to tenant in this index, so one tenant's long queue costs nothing. A job is left
-- out until its first wake-up is published: until then next_wake_up_at is run_at.
CREATE INDEX jobs_claimable ON jobs (model, priority, tenant_id, id) WHERE next_wake_up_at > run_at;

-- For sweepers.
CREATE INDEX jobs_by_next_wake_up ON jobs (next_wake_up_at) WHERE next_wake_up_at IS NOT NULL;
CREATE INDEX jobs_by_expiry ON jobs (expires_at)
  WHERE expires_at IS NOT NULL AND started_at IS NULL AND finished_at IS NULL;
CREATE INDEX jobs_by_lease ON jobs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX jobs_by_finished_at ON jobs (finished_at) WHERE finished_at IS NOT NULL;

-- Jobs that may be what kills Triton (MAX_INTERRUPTIONS in services/dispatcher/retry.py) run one at a time. A claim looks
-- for another such job first. Two claims at once see none, so the later one fails here and tries again.
CREATE UNIQUE INDEX jobs_one_suspected_poison ON jobs ((lease_until IS NOT NULL))
  WHERE lease_until IS NOT NULL AND interruptions >= 3;

-- For the depths and the limits of queues. A job without a worker is a job without a lease, but only the query of the
-- second index says it that way.
CREATE INDEX jobs_in_queue ON jobs (model, priority, id) WHERE finished_at IS NULL AND lease_until IS NULL;
CREATE INDEX jobs_in_queue_by_tenant ON jobs (tenant_id) WHERE finished_at IS NULL AND worker IS NULL;

-- For lists, newest first. Each change of a job writes it into every index whose condition it meets. So none of these
-- holds a job that runs: two hold it while it waits, two others after its end. Few jobs run at a time.
CREATE INDEX jobs_waiting ON jobs (tenant_id, created_at, id) WHERE finished_at IS NULL AND lease_until IS NULL;
CREATE INDEX jobs_waiting_of_model ON jobs (tenant_id, model, created_at, id)
  WHERE finished_at IS NULL AND lease_until IS NULL;
CREATE INDEX jobs_ended ON jobs (tenant_id, status, created_at, id)
  WHERE status IN ('succeeded', 'failed', 'canceled', 'expired');
CREATE INDEX jobs_ended_of_model ON jobs (tenant_id, model, status, created_at, id)
  WHERE status IN ('succeeded', 'failed', 'canceled', 'expired');
CREATE INDEX jobs_dead_letters ON jobs (tenant_id, id) WHERE status = 'failed' AND erased_at IS NULL;
CREATE INDEX jobs_of_batch ON jobs (batch_id, status) WHERE batch_id IS NOT NULL;

CREATE TABLE job_inputs (
  job_id uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  tensors bytea COMPRESSION lz4 NOT NULL, -- packed by common/tensors.py
  parameters bytea, -- JSON object
  metadata bytea, -- JSON object
  callback_url text,
  callback_events text[],
  CONSTRAINT job_inputs_callback_is_whole CHECK ((callback_url IS NULL) = (callback_events IS NULL))
);

CREATE TABLE job_outputs (
  job_id uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  outputs bytea COMPRESSION lz4 NOT NULL -- the JSON list of the API, byte for byte
);

-- The outcome of each attempt at a job, written when the attempt ends.
CREATE TABLE job_attempts (
  job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
  claim bigint NOT NULL,
  attempt integer NOT NULL, -- the number of the attempt; a returned attempt's number is used again
  model text NOT NULL,
  worker text NOT NULL,
  started_at timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  status text NOT NULL CHECK (status IN ('succeeded', 'failed', 'canceled', 'returned')), -- returned: does not count
  error_code text,
  error_message text,
  PRIMARY KEY (job_id, claim)
);

-- The rest of a job's history, in the order of (claim, number): each response of a streaming model (1, 2, …), a cancel
-- request, a retry.
CREATE TABLE job_steps (
  job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
  claim bigint NOT NULL,
  number integer NOT NULL CHECK (number >= 0),
  type text NOT NULL CHECK (type IN ('job.output', 'job.canceling', 'job.queued')),
  created_at timestamptz NOT NULL DEFAULT now(),
  outputs bytea COMPRESSION lz4, -- the JSON list of the API
  PRIMARY KEY (job_id, claim, number),
  CONSTRAINT job_steps_outputs_of_output CHECK ((outputs IS NULL) = (type <> 'job.output'))
);

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

-- Operational events belong to no job.
CREATE TABLE events (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  job_id uuid REFERENCES jobs ON DELETE CASCADE,
  about_job_id uuid, -- the job of an operational event; the body may quote a receiver, so it is erased with the job
  model text,
  claim bigint, -- the claim under which the job ended
  type text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  body bytea NOT NULL, -- the webhook's body, byte for byte
  fanned_out_at timestamptz, -- when its deliveries were inserted
  traceparent text
);
CREATE INDEX events_by_job ON events (job_id);
CREATE INDEX events_about_job ON events (about_job_id) WHERE about_job_id IS NOT NULL;
CREATE INDEX events_of_no_job ON events (created_at) WHERE job_id IS NULL;
CREATE INDEX events_not_fanned_out ON events (created_at) WHERE fanned_out_at IS NULL;


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
  disabled_reason text CHECK (disabled_reason IN ('gone', 'failing')),
  CONSTRAINT webhooks_disabled_for_a_reason CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant_id, id);
CREATE INDEX webhooks_disabled ON webhooks (disabled_at) WHERE disabled_at IS NOT NULL; -- for metrics

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
  rate_limit integer CHECK (rate_limit >= 1), -- attempts a second
  next_at timestamptz, -- when to look for due deliveries; NULL: there are none
  rate_limited_until timestamptz, -- no attempt before
  failures integer NOT NULL DEFAULT 0, -- failed attempts in a row
  failing_since timestamptz, -- the first of them
  open_until timestamptz, -- the circuit is open: no attempt before, then one at a time until one succeeds
  backoff_level integer NOT NULL GENERATED ALWAYS AS (CASE WHEN open_until IS NULL THEN failures ELSE 1000000 END) STORED,
  has_backlog boolean NOT NULL DEFAULT false, -- more is due than may be under way: look again when an attempt ends
  UNIQUE (tenant_id, origin),
  CONSTRAINT endpoints_webhook_or_origin CHECK ((webhook_id IS NULL) <> (origin IS NULL)),
  CONSTRAINT endpoints_failing_since_first_failure CHECK ((failures > 0) = (failing_since IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX endpoints_by_due ON endpoints (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX endpoints_open ON endpoints (open_until) WHERE open_until IS NOT NULL; -- for metrics

-- One for each event and receiver. Its id is the webhook-id of every attempt.
CREATE TABLE deliveries (
  id uuid PRIMARY KEY,
  event_id uuid NOT NULL REFERENCES events ON DELETE CASCADE,
  event_type text NOT NULL,
  tenant_id uuid NOT NULL REFERENCES tenants,
  job_id uuid,
  endpoint_id uuid NOT NULL REFERENCES endpoints ON DELETE CASCADE,
  webhook_id uuid, -- NULL: the job's own callback; no foreign key, because its endpoint has one
  url text NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'succeeded', 'exhausted', 'canceled')),
  attempt integer NOT NULL DEFAULT 0, -- attempts made or under way
  next_at timestamptz, -- when it is due; a claim sets it behind the lease, so it is due again when the lease lapses
  schedule_started_at timestamptz NOT NULL DEFAULT now(), -- when its retry schedule began, or began again
  tries integer NOT NULL DEFAULT 0, -- attempts since then, without those that failed on our side
  lease_until timestamptz, -- an attempt is under way until then
  traceparent text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  UNIQUE NULLS NOT DISTINCT (event_id, webhook_id),
  CONSTRAINT deliveries_due_while_pending CHECK ((status = 'pending') = (next_at IS NOT NULL)),
  CONSTRAINT deliveries_finished_unless_pending CHECK ((status = 'pending') = (finished_at IS NULL)),
  CONSTRAINT deliveries_leased_while_pending CHECK (lease_until IS NULL OR status = 'pending'),
  CONSTRAINT deliveries_webhook_is_endpoint CHECK (webhook_id IS NULL OR webhook_id = endpoint_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05); -- as for jobs
CREATE INDEX deliveries_by_due ON deliveries (endpoint_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_in_flight ON deliveries (endpoint_id, lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX deliveries_by_job ON deliveries (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX deliveries_by_endpoint ON deliveries (endpoint_id, id);

CREATE TABLE attempts (
  delivery_id uuid NOT NULL REFERENCES deliveries ON DELETE CASCADE,
  number integer NOT NULL,
  started_at timestamptz NOT NULL,
  duration_ms double precision NOT NULL,
  status_code integer,
  error text, -- an error from docs/reference/errors.md; NULL: success
  response bytea NOT NULL, -- its first bytes
  PRIMARY KEY (delivery_id, number)
);

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


-- Outbox --------------------------------------------------------------------------------------------------------------

-- Messages that are committed with the change they announce, and not yet confirmed by the broker.
CREATE TABLE outbox (
  id uuid PRIMARY KEY, -- also the message id
  exchange text NOT NULL,
  routing_key text NOT NULL,
  body bytea NOT NULL,
  traceparent text NOT NULL,
  due_at timestamptz NOT NULL DEFAULT now() + interval '5 seconds' -- before, the committing process publishes it
);
CREATE INDEX outbox_by_due ON outbox (due_at);


-- Housekeeping --------------------------------------------------------------------------------------------------------

-- The latest time that a notifier read from the database's clock. If it is in the future, the clock was set back.
CREATE TABLE clock (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  latest_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO clock DEFAULT VALUES;
