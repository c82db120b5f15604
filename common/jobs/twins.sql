-- name: find_twins
-- Returns the twins of keys, each as it is now, with the database's time. The outputs of one that has succeeded come with it if
-- they have at most :largest bytes. A job that itself waits for a twin is none, and neither is one that is gone.
SELECT t.tenant_id, t.key, t.job_id, t.forgotten_at, j.model, j.version, j.status, j.finished_at, j.erased_at, j.load_id,
       j.priority, j.claim, j.traceparent, j.started_at, j.inference_ms, j.scheduled_at, now() AS now,
       CASE WHEN j.status = 'succeeded' THEN octet_length(j.outputs) END AS outputs_size,
       CASE WHEN j.status = 'succeeded' AND octet_length(j.outputs) <= :largest::integer THEN j.outputs END AS outputs
FROM unnest(:wanted.tenant_id::uuid[], :wanted.key::bytea[]) AS wanted(tenant_id, key)
JOIN twins t ON t.tenant_id = wanted.tenant_id AND t.key = wanted.key
LEFT JOIN jobs j ON j.id = t.job_id AND j.scheduled_at IS DISTINCT FROM 'infinity';

-- name: is_awaited
-- Returns whether jobs wait for the result of a :job, which is the twin of a :tenant's :key.
SELECT EXISTS (
  SELECT
  FROM twins t
  JOIN live_jobs j ON j.tenant_id = t.tenant_id AND j.reuse_key = t.key AND j.scheduled_at = 'infinity'
  WHERE t.tenant_id = :tenant AND t.key = :key AND t.job_id = :job
) AS awaited;

-- name: find_loads
-- Returns the loads of a :model whose results answer jobs that want a :version; NULL: of its newest version that is ready, or
-- else of its newest one.
SELECT version, loads
FROM models
WHERE name = :model AND (version = :version OR :version::text IS NULL)
ORDER BY ready DESC, length(version) DESC, version DESC -- versions are numbers
LIMIT 1;

-- name: promote_twins
-- Makes jobs that wait for a twin the twins of their keys, and claimable, unless another job became that since (before).
-- They get a priority, and their claims go on after those of the twin before. Leaves out jobs that are locked, or wait no more.
-- Returns the queues of the new twins.
WITH given AS (
  SELECT *
  FROM unnest(
    :jobs.id::uuid[], :jobs.before::uuid[], :jobs.priority::text[], :jobs.claim::bigint[]
  ) AS t(id, before, priority, claim)
), locked AS MATERIALIZED (
  SELECT j.id, j.tenant_id, j.reuse_key, given.before, given.priority, given.claim
  FROM given
  JOIN live_jobs j ON j.id = given.id
  WHERE j.status = 'queued' AND coalesce(j.scheduled_at = 'infinity', false) AND j.reuse_key IS NOT NULL
  ORDER BY j.id
  FOR UPDATE OF j SKIP LOCKED
), elected AS (
  INSERT INTO twins (tenant_id, key, job_id, before)
  SELECT tenant_id, reuse_key, id, before FROM locked ORDER BY tenant_id, reuse_key
  ON CONFLICT (tenant_id, key) DO UPDATE
  SET job_id = excluded.job_id, before = excluded.before, elected_at = excluded.elected_at
  WHERE twins.job_id = excluded.before
  RETURNING job_id
)
UPDATE live_jobs j
SET scheduled_at = NULL, run_at = now(), priority = locked.priority, claim = greatest(j.claim, locked.claim)
FROM elected JOIN locked ON locked.id = elected.job_id
WHERE j.id = elected.job_id
RETURNING j.tenant_id, j.id, j.model, j.priority, j.traceparent;

-- name: lift_twins
-- Gives twins of keys that wait the highest priority of the jobs that wait for them. One that backs off beyond the time when
-- one of these expires is due now, unless it is a suspect. Its last attempt keeps its time, so that it fails no earlier
-- than its own client wants. Returns the queues of those that changed.
WITH wanted AS MATERIALIZED (
  SELECT t.job_id, waiting.rank, waiting.expires_at
  FROM (SELECT DISTINCT * FROM unnest(:keys.tenant_id::uuid[], :keys.key::bytea[]) AS t(tenant_id, key)) given
  JOIN twins t ON t.tenant_id = given.tenant_id AND t.key = given.key
  CROSS JOIN LATERAL (
    SELECT min(array_position('{high,normal,low}'::text[], j.priority)) AS rank, min(j.expires_at) AS expires_at
    FROM live_jobs j
    WHERE j.tenant_id = given.tenant_id AND j.reuse_key = given.key AND j.scheduled_at = 'infinity'
  ) waiting
), lifted AS MATERIALIZED (
  SELECT j.id, wanted.rank,
         coalesce(
           j.scheduled_at > greatest(wanted.expires_at, now()) AND j.probation IS NULL AND j.attempt + 1 < j.max_attempts,
           false
         ) AS is_due
  FROM wanted
  JOIN live_jobs j ON j.id = wanted.job_id
  WHERE j.status = 'queued' AND coalesce(j.scheduled_at < 'infinity', true) AND (
    wanted.rank < array_position('{high,normal,low}'::text[], j.priority)
    OR j.scheduled_at > greatest(wanted.expires_at, now()) AND j.probation IS NULL AND j.attempt + 1 < j.max_attempts
  )
  ORDER BY j.id
  FOR UPDATE OF j SKIP LOCKED
)
UPDATE live_jobs j
SET priority = ('{high,normal,low}'::text[])[
      least(lifted.rank, array_position('{high,normal,low}'::text[], j.priority))
    ],
    run_at = CASE WHEN is_due THEN now() ELSE j.run_at END,
    scheduled_at = CASE WHEN is_due THEN now() ELSE j.scheduled_at END
FROM lifted
WHERE j.id = lifted.id
RETURNING j.tenant_id, j.id, j.model, j.priority, j.traceparent;

-- name: forget_result
-- Lets nobody take results of a :job's key any more that there are now, because the job was erased, which shows one.
UPDATE twins t
SET forgotten_at = now()
FROM jobs j
WHERE j.id = :job AND j.reused_from IS NOT NULL AND t.tenant_id = j.tenant_id AND t.key = j.reuse_key;

-- name: forget_results_of_run
-- Does the same for the jobs of the steps of a :run, which are erased with it.
UPDATE twins t
SET forgotten_at = now()
FROM jobs j
WHERE j.generation > 0 AND j.parent = :run AND j.reused_from IS NOT NULL AND t.tenant_id = j.tenant_id
  AND t.key = j.reuse_key;
