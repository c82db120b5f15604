-- compatible with: 1
-- migrate: no transaction
--
-- Each statement is a transaction of its own, as in 0002_openai.sql.
--
-- The queue decides which models a Triton holds: docs/explanation/residency.md. Services of the release before know nothing
-- of it. Their dispatchers keep no model back that is about to be unloaded. Triton lets what runs end then, and jobs that it
-- refuses start again.

-- NULL: the dispatcher leaves Triton's models as they are, or is one of the release before.
ALTER TABLE dispatchers
  ADD COLUMN IF NOT EXISTS server text, -- the address of its Triton
  ADD COLUMN IF NOT EXISTS models text[]; -- patterns: which models it runs

-- Whether the dispatcher's Triton has the version in its repository and may load it, or has it loaded.
ALTER TABLE served_models ADD COLUMN IF NOT EXISTS in_repository boolean NOT NULL DEFAULT false;

CREATE OR REPLACE VIEW dispatchers_now AS
SELECT worker, seen_at, seen_at > now() - interval '8 seconds' AS is_alive, server, models FROM dispatchers;

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
