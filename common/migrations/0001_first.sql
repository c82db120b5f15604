-- Ids are UUIDv7, so primary keys are in order of time. Times are the database's own: no service's clock decides.

CREATE TABLE tenants (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 100),
  webhook_secret bytea NOT NULL, -- sealed; signs callbacks given per job
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  name text NOT NULL,
  key_hash bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32), -- SHA-256; keys are random, so no salt
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz
);

-- What the Triton servers can run, kept by the dispatchers, read by the gateways.
CREATE TABLE models (
  name text NOT NULL,
  version text NOT NULL,
  ready boolean NOT NULL,
  decoupled boolean NOT NULL,
  max_batch_size integer NOT NULL CHECK (max_batch_size >= 0),
  instances integer NOT NULL CHECK (instances >= 1),
  inputs jsonb NOT NULL, -- [{name, datatype, shape with the batch dimension, optional}]
  outputs jsonb NOT NULL, -- [{name, datatype, shape with the batch dimension}]
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, version)
);

-- Narrow and hot; what is written once is in job_inputs and job_outputs.
CREATE TABLE jobs (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  model text NOT NULL,
  version text, -- as asked for; once succeeded, the one that ran
  priority text NOT NULL CHECK (priority IN ('high', 'normal', 'low')),
  status text NOT NULL
    CHECK (status IN ('queued', 'processing', 'canceling', 'succeeded', 'failed', 'canceled', 'expired')),
  attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  max_attempts integer NOT NULL CHECK (max_attempts >= 1),
  claim bigint NOT NULL DEFAULT 0, -- the fence: raised by every claim and never lowered, unlike attempt
  interruptions integer NOT NULL DEFAULT 0, -- attempts given back because Triton went away under them
  created_at timestamptz NOT NULL DEFAULT now(),
  run_at timestamptz NOT NULL DEFAULT now(),
  ring_at timestamptz, -- when a sweeper rings for it (again), should it still be queued then
  started_at timestamptz,
  finished_at timestamptz,
  expires_at timestamptz,
  lease_until timestamptz,
  worker text,
  timeout double precision NOT NULL CHECK (timeout > 0), -- seconds one attempt may run
  initial_delay double precision NOT NULL CHECK (initial_delay >= 0), -- seconds
  max_delay double precision NOT NULL CHECK (max_delay >= initial_delay), -- seconds
  fallback_model text,
  error_code text,
  error_message text,
  error_retryable boolean,
  inference_ms double precision,
  traceparent text NOT NULL,
  CHECK (attempt <= max_attempts),
  CHECK ((status IN ('processing', 'canceling')) = (lease_until IS NOT NULL)),
  CHECK ((lease_until IS NULL) = (worker IS NULL)),
  CHECK ((status IN ('succeeded', 'failed', 'canceled', 'expired')) = (finished_at IS NOT NULL)),
  CHECK ((status = 'queued') = (ring_at IS NOT NULL)),
  CHECK (status <> 'failed' OR error_code IS NOT NULL)
) WITH (fillfactor = 80);

CREATE INDEX jobs_by_ring ON jobs (ring_at) WHERE status = 'queued';
CREATE INDEX jobs_by_expiry ON jobs (expires_at)
  WHERE status = 'queued' AND started_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX jobs_by_lease ON jobs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX jobs_in_queue ON jobs (model, priority, id) WHERE status = 'queued';

-- bytea throughout: jsonb reorders keys, drops duplicates and refuses NUL.
CREATE TABLE job_inputs (
  job_id uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  tensors bytea NOT NULL, -- common/tensors.py, packed
  parameters bytea, -- JSON object
  metadata bytea, -- JSON object
  callback_url text,
  callback_events text[],
  CHECK ((callback_url IS NULL) = (callback_events IS NULL))
);
ALTER TABLE job_inputs ALTER tensors SET COMPRESSION lz4;

CREATE TABLE job_outputs (
  job_id uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  outputs bytea NOT NULL -- the JSON list of the API, byte for byte
);
ALTER TABLE job_outputs ALTER outputs SET COMPRESSION lz4;

-- Messages committed with the change that they announce and not yet confirmed by the broker.
CREATE TABLE outbox (
  id uuid PRIMARY KEY, -- also the message id
  exchange text NOT NULL,
  routing_key text NOT NULL,
  body bytea NOT NULL,
  traceparent text NOT NULL,
  due_at timestamptz NOT NULL DEFAULT now() + interval '5 seconds' -- until then the committing process publishes it
);
CREATE INDEX outbox_by_due ON outbox (due_at);

CREATE TABLE events (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
  model text NOT NULL,
  type text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  body bytea NOT NULL, -- the webhook's body, byte for byte
  fanned_out_at timestamptz -- when its deliveries were made
);
CREATE INDEX events_by_job ON events (job_id);
CREATE INDEX events_unheard ON events (created_at) WHERE fanned_out_at IS NULL;

CREATE TABLE webhooks (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  url text NOT NULL,
  events text[] NOT NULL CHECK (cardinality(events) >= 1), -- patterns such as job.*
  models text[], -- NULL for every model
  description text,
  headers bytea, -- sealed JSON object
  signing text NOT NULL CHECK (signing IN ('hmac', 'ed25519')),
  secret bytea NOT NULL, -- sealed
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant_id, id);

-- One for each event and receiver; its id is the webhook-id of every attempt.
CREATE TABLE deliveries (
  id uuid PRIMARY KEY,
  event_id uuid NOT NULL REFERENCES events ON DELETE CASCADE,
  tenant_id uuid NOT NULL REFERENCES tenants,
  job_id uuid NOT NULL,
  webhook_id uuid REFERENCES webhooks ON DELETE CASCADE, -- NULL for the job's own callback
  url text NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'succeeded', 'exhausted')),
  attempt integer NOT NULL DEFAULT 0, -- attempts made or under way
  next_at timestamptz, -- when it is due; a claim moves it behind the lease, so a lapsed claim is due by itself
  traceparent text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  UNIQUE NULLS NOT DISTINCT (event_id, webhook_id),
  CHECK ((status = 'pending') = (next_at IS NOT NULL)),
  CHECK ((status = 'pending') = (finished_at IS NULL))
);
CREATE INDEX deliveries_by_due ON deliveries (next_at) WHERE status = 'pending';
CREATE INDEX deliveries_by_job ON deliveries (job_id);
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id) WHERE webhook_id IS NOT NULL;

CREATE TABLE attempts (
  delivery_id uuid NOT NULL REFERENCES deliveries ON DELETE CASCADE,
  number integer NOT NULL,
  started_at timestamptz NOT NULL,
  duration_ms double precision NOT NULL,
  status_code integer,
  error text, -- a name from docs/webhooks.md, NULL for success
  response bytea NOT NULL, -- its first bytes
  PRIMARY KEY (delivery_id, number)
);
