-- name: promote_jobs
-- Makes up to :limit scheduled jobs claimable whose time has come, the most overdue first. Returns their queues.
WITH due AS (
  SELECT id
  FROM live_jobs
  WHERE scheduled_at <= now() AND probation IS NULL
  ORDER BY scheduled_at
  LIMIT :limit
  FOR UPDATE SKIP LOCKED
)
UPDATE live_jobs
SET scheduled_at = NULL
WHERE id IN (SELECT id FROM due)
RETURNING tenant_id, id, model, priority, traceparent;

-- name: find_suspect
-- Returns whether a suspected poison job is due, or a tenant is on probation.
SELECT EXISTS (SELECT FROM live_jobs WHERE probation IS NOT NULL AND finished_at IS NULL AND scheduled_at <= now())
  OR EXISTS (SELECT FROM tenants_on_probation) AS found;

-- name: lock_promotion
-- Tries to lock the promotion of suspected poison jobs until the transaction ends.
SELECT pg_try_advisory_xact_lock(:lock) AS locked;

-- name: return_suspects
-- Schedules claimable suspects again whose model is away or paused, or whose tenant is paused. They would block the
-- others, or run beside one of them once they can.
WITH away AS MATERIALIZED (
  SELECT name FROM models GROUP BY name HAVING NOT bool_or(ready)
  UNION
  SELECT model FROM model_limits WHERE paused_at IS NOT NULL
)
UPDATE live_jobs
SET scheduled_at = now()
WHERE id IN (
  SELECT id
  FROM live_jobs
  WHERE probation IS NOT NULL AND finished_at IS NULL AND scheduled_at IS NULL AND model >= '' -- fits an index
    AND lease_until IS NULL
    AND (model IN (SELECT name FROM away) OR tenant_id IN (SELECT id FROM tenants WHERE paused_at IS NOT NULL))
  FOR UPDATE SKIP LOCKED
);

-- name: suspect_jobs
-- Makes suspects of the claimable jobs of tenants on probation, up to :limit of each model and priority. They are on
-- probation for :probation seconds, as after so many :interruptions.
WITH chosen AS MATERIALIZED (
  SELECT job.id
  FROM tenants_on_probation t
  CROSS JOIN (VALUES ('high'), ('normal'), ('low')) class(priority)
  CROSS JOIN LATERAL (
    SELECT id
    FROM live_jobs j
    WHERE j.model = t.model AND j.priority = class.priority AND j.tenant_id >= t.tenant_id
      AND j.tenant_id <= t.tenant_id AND j.status = 'queued' AND j.scheduled_at IS NULL AND j.probation IS NULL
    ORDER BY j.tenant_id, j.id -- so that the primary key's order is of no use
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
  ) job
)
UPDATE live_jobs j
SET interruptions = greatest(interruptions, :interruptions), probation = :probation, scheduled_at = now()
FROM chosen
WHERE j.id = chosen.id;

-- name: promote_suspect
-- Makes one suspected poison job claimable that is due, if no other one is running, or about to run, where one crash
-- could hit both: on the same model, or on models of one dispatcher. Returns its queue. Models and tenants take turns
-- by lot. A model that is away or paused blocks no other, and neither does a tenant that is paused or has to wait after
-- a crash.
WITH first AS MATERIALIZED (
  SELECT DISTINCT ON (model, tenant_id) id, model
  FROM live_jobs
  WHERE probation IS NOT NULL AND finished_at IS NULL AND scheduled_at <= now()
    AND tenant_id NOT IN (SELECT id FROM tenants WHERE paused_at IS NOT NULL)
    AND (tenant_id, model) NOT IN (SELECT tenant_id, model FROM tenants_on_probation WHERE resumes_at > now())
  ORDER BY model, tenant_id, scheduled_at
), away AS MATERIALIZED (
  SELECT name FROM models GROUP BY name HAVING NOT bool_or(ready)
  UNION
  SELECT model FROM model_limits WHERE paused_at IS NOT NULL
), busy AS MATERIALIZED (
  SELECT model, lease_until IS NULL AND model IN (SELECT name FROM away) AS is_away
  FROM live_jobs
  WHERE probation IS NOT NULL AND finished_at IS NULL AND scheduled_at IS NULL AND model >= '' -- fits an index
), chosen AS (
  SELECT id
  FROM first
  WHERE model NOT IN (SELECT name FROM away)
    AND model NOT IN (SELECT model FROM busy)
    AND NOT EXISTS (
      SELECT
      FROM busy
      JOIN served_models other ON other.name = busy.model AND NOT busy.is_away
      JOIN served_models own ON own.worker = other.worker
      WHERE own.name = first.model
    )
  ORDER BY random()
  LIMIT 1
)
UPDATE live_jobs
SET scheduled_at = NULL
WHERE id = (SELECT id FROM chosen) AND scheduled_at <= now() -- not canceled in the meantime
RETURNING tenant_id, id, model, priority, traceparent;
