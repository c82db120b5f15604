-- compatible with: 1
-- migrate: no transaction
--
-- Each statement is a transaction of its own, as in 0002_openai.sql.
--
-- The queue decides which models a Triton holds: docs/explanation/residency.md. Services of the release before know nothing
-- of it. Their dispatchers keep no model back that is about to be unloaded. Triton lets what runs end then, and jobs that it
-- refuses start again.

-- What the elected dispatcher of a Triton knows of each model, and what it does with it. It writes the rows, and everyone
-- else reads them.
CREATE TABLE IF NOT EXISTS residencies (
  server text NOT NULL, -- the address of the Triton, as for quarantines
  name text NOT NULL,
  phase text NOT NULL CHECK (phase IN ('absent', 'loading', 'resident', 'draining')), -- draining: it starts no more jobs
  changed_at timestamptz NOT NULL DEFAULT now(), -- when the phase began
  memory bigint CHECK (memory > 0), -- bytes that the model counts for; NULL: not known
  measured bigint CHECK (measured > 0), -- by how many bytes Triton grew at a load; NULL: nobody measured it
  assumed bigint CHECK (assumed > 0), -- after a load that lacked memory: more than is declared or measured
  lost bigint NOT NULL DEFAULT 0 CHECK (lost >= 0), -- of earlier loads that Triton never unloaded
  keep boolean NOT NULL DEFAULT false, -- it is never unloaded to make room
  load_seconds double precision CHECK (load_seconds >= 0), -- mean of its loads; half the weight is on the last one
  loaded_at timestamptz, -- when the model became resident; NULL: it is not
  left_at timestamptz, -- when it was last unloaded; NULL: nobody saw that
  used_at timestamptz, -- when a job last waited or ran
  arrivals double precision NOT NULL DEFAULT 0 CHECK (arrivals >= 0), -- jobs a second, smoothed over ten minutes
  failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0), -- loads in a row that failed
  next_try_at timestamptz, -- no load begins before; NULL: the last load worked
  reason text, -- why the model is not loaded, as clients may see it
  for_model text, -- of a model that drains: the one that gets its room
  place integer CHECK (place >= 1), -- in the order of loads; NULL: nobody waits for the model
  expected_at timestamptz, -- when it can probably run
  why text, -- why it has this place
  updated_at timestamptz NOT NULL DEFAULT now(), -- rows of a Triton that no dispatcher has had for a day are removed
  PRIMARY KEY (server, name)
) WITH (fillfactor = 50);

-- NULL: the dispatcher leaves Triton's models as they are, or is one of the release before.
ALTER TABLE dispatchers
  ADD COLUMN IF NOT EXISTS server text, -- the address of its Triton
  ADD COLUMN IF NOT EXISTS models text[], -- patterns: which models it runs
  ADD COLUMN IF NOT EXISTS model_memory bigint CHECK (model_memory > 0); -- bytes of its Triton for models

-- Whether the dispatcher's Triton has the version in its repository and may load it, or has it loaded.
ALTER TABLE served_models ADD COLUMN IF NOT EXISTS in_repository boolean NOT NULL DEFAULT false;

CREATE OR REPLACE VIEW dispatchers_now AS
SELECT worker, seen_at, seen_at > now() - interval '8 seconds' AS is_alive, server, models, model_memory
FROM dispatchers;

CREATE OR REPLACE VIEW served_now AS
SELECT s.name, s.version, s.worker, s.session, s.ready, s.decoupled, s.max_batch_size, s.instances, s.slots, s.inputs,
       s.outputs, s.queue_ms, s.compute_ms, s.limited_by, s.described_at, s.missing_since, s.updated_at, d.seen_at,
       coalesce(d.is_alive AND s.updated_at > now() - interval '30 seconds', false) AS is_alive, s.settings, s.load_id,
       s.loaded_at, s.in_repository, d.server
FROM served_models s
LEFT JOIN dispatchers_now d ON d.worker = s.worker;

-- `loads`: see 0003_reuse.sql. `in_repository`: a live dispatcher's Triton has the version, loaded or not.
CREATE OR REPLACE VIEW models AS
SELECT DISTINCT ON (name, version)
  name, version, is_ready AS ready, decoupled, max_batch_size, inputs, outputs, settings,
  CASE
    WHEN NOT is_ready OR bool_and(load_id IS NOT NULL) OVER alike
    THEN array_agg(load_id) FILTER (WHERE load_id IS NOT NULL AND (is_alive OR loaded_at = newest)) OVER alike
  END AS loads,
  min(loaded_at) FILTER (WHERE is_alive OR loaded_at = newest) OVER alike AS loaded_at,
  in_any_repository AS in_repository
FROM (
  SELECT *, ready AND is_alive AS is_ready, max(loaded_at) OVER versions AS newest,
         bool_or(in_repository AND is_alive) OVER versions AS in_any_repository
  FROM served_now
  WINDOW versions AS (PARTITION BY name, version)
) served
WINDOW alike AS (PARTITION BY name, version, is_ready)
ORDER BY name, version, is_ready DESC, described_at DESC, worker;

GRANT SELECT ON dispatchers_now TO charonia_dispatcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON residencies TO charonia_dispatcher;
GRANT SELECT ON residencies TO charonia_gateway;
GRANT INSERT (role), DELETE ON leader_leases TO charonia_dispatcher; -- each Triton has a role
