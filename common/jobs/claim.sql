-- name: find_waiting
-- Finds up to :count jobs of a :model and a :priority that may be claimed, and returns them in the order of their turns.
--
-- Tenants share a model fairly. The tenant that runs the fewest jobs here goes first (:busy_tenants, :busy_jobs).
-- Tenants that run equally many take turns, beginning after :last_tenant, which was served last. Within a tenant, the
-- oldest job goes first. The search is bounded: it looks at up to :per_tenant jobs of each of up to :tenants. It passes
-- over :closed_tenants. Of tenants :on_probation it finds only suspects. A tenant without such a job has a row without one.
-- Each row tells for how many seconds the server has searched.
WITH tenants AS MATERIALIZED (
  SELECT *
  FROM waiting_tenants(:model, :priority, :last_tenant, :tenants, :closed_tenants) WITH ORDINALITY AS tenant(id, turn)
)
SELECT tenant.id AS tenant_id, job.id, extract(epoch FROM clock_timestamp() - statement_timestamp()) AS seconds
FROM tenants tenant
LEFT JOIN unnest(:busy_tenants::uuid[], :busy_jobs::integer[]) AS busy(id, jobs) ON busy.id = tenant.id
LEFT JOIN LATERAL claimable_jobs(:model, :priority, tenant.id, :per_tenant) job
  ON job.suspected OR NOT tenant.id = ANY(:on_probation::uuid[])
ORDER BY coalesce(busy.jobs, 0) + job.place, tenant.turn
LIMIT :count;

-- name: claim_jobs
-- Claims up to :count of these :jobs of a :model and a :priority, the first ones first, for a :worker in a :session,
-- leased for :lease seconds.
--
-- Locked jobs are skipped. `waiting` are those of the jobs that still wait. `contended` says that more of them could
-- start, but others hold their rows. The inputs have at most :max_bytes together. Small jobs with at most
-- :max_passing_bytes together pass those that do not fit. `next_bytes` are those of the first job that did not fit. Of
-- tenants :on_probation only suspects are claimed.
WITH offered AS MATERIALIZED (
  SELECT job.id, job.input_bytes, offer.number
  FROM unnest(:jobs::uuid[]) WITH ORDINALITY AS offer(id, number)
  CROSS JOIN LATERAL (
    SELECT id, input_bytes
    FROM live_jobs
    -- Written so that only the primary key fits this condition, and no partial index.
    WHERE id = offer.id AND model = :model AND priority = :priority
      AND coalesce(status = 'queued' AND scheduled_at IS NULL, false)
      AND (expires_at IS NULL OR expires_at > now() OR started_at IS NOT NULL)
      AND (probation IS NOT NULL OR NOT tenant_id = ANY(:on_probation::uuid[]))
  ) job
), sized AS MATERIALIZED (
  SELECT *, sum(input_bytes) OVER turns <= :max_bytes::bigint AS fits,
    input_bytes <= :max_passing_bytes AND
      sum(input_bytes) FILTER (WHERE input_bytes <= :max_passing_bytes::bigint) OVER turns <= :max_passing_bytes
      AS passes
  FROM offered
  WINDOW turns AS (ORDER BY number)
), locked AS MATERIALIZED (
  SELECT id, number, NOT fits AS passed
  FROM sized
  CROSS JOIN LATERAL (
    SELECT FROM live_jobs
    WHERE id = sized.id AND model = :model AND priority = :priority
      AND coalesce(status = 'queued' AND scheduled_at IS NULL, false)
    FOR UPDATE SKIP LOCKED
  ) job
  WHERE fits OR passes
  LIMIT :count::integer
), claimed AS (
  UPDATE live_jobs j
  SET status = 'processing', attempt = attempt + 1, claim = claim + 1, worker = :worker, session = :session,
      lease_until = now() + make_interval(secs => :lease::double precision), started_at = now()
  FROM locked
  WHERE j.id = locked.id
  RETURNING
    j.id, j.tenant_id, j.model, j.version, j.priority, j.status, j.attempt, j.max_attempts, j.claim, j.worker,
    j.interruptions, j.probation, j.input_bytes, j.created_at, j.run_at, j.scheduled_at, j.started_at, j.finished_at,
    j.expires_at, j.erased_at, j.timeout, j.initial_delay, j.max_delay, j.fallback_model, j.error_code, j.error_message,
    j.error_retryable, j.inference_ms, j.traceparent, j.tensors, j.parameters, j.metadata, j.output_location, j.parent,
    j.step, j.step_index, j.run_state, j.reuse_key, locked.number, locked.passed,
    j.parent IS NULL AND ( -- nobody is told of the start of a step's job
      coalesce('job.started' = ANY(j.callback_events), false) OR EXISTS (
        SELECT FROM webhooks w
        WHERE w.tenant_id = j.tenant_id AND w.events && event_patterns('job.started') AND w.format = 'charonia'
      )
    ) AS wants_started
)
SELECT search.*, claimed.*
FROM (
  SELECT
    array_agg(sized.id) FILTER (WHERE locked.id IS NULL) AS waiting,
    count(locked.id) < least(:count, count(*) FILTER (WHERE fits OR passes)) AS contended,
    (array_agg(input_bytes ORDER BY sized.number)
      FILTER (WHERE NOT fits AND NOT passes AND (jobs < :count OR sized.number < last)))[1]
      AS next_bytes
  FROM (SELECT count(*) AS jobs, max(number) AS last FROM locked) found
  LEFT JOIN sized ON true
  LEFT JOIN locked ON locked.id = sized.id
  GROUP BY jobs, last
) search
LEFT JOIN claimed ON true
ORDER BY claimed.number;

-- name: lock_limits
-- Locks the limits of a :model, so that its claims take turns over all dispatchers. This lock comes before those of
-- jobs. Find the room with the next statement: after a wait, this one would not see the jobs of the claim before it.
SELECT FROM model_limits WHERE model = :model FOR UPDATE;

-- name: find_room
-- Finds how many of the :wanted jobs of a :model may start now.
SELECT * FROM model_room(:model, :wanted);
