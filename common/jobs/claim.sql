-- name: claim_jobs
-- Claims up to :count jobs of a :model and a :priority for a :worker in a :session, leased for :lease seconds.
--
-- Tenants share a model fairly. The tenant that runs the fewest jobs here goes first (:busy_tenants, :busy_jobs).
-- Tenants that run equally many take turns, beginning after :last_tenant, which was served last. Within a tenant, the
-- oldest job goes first. The search is bounded. It passes over :closed_tenants, and leaves no tenant with more than
-- :per_tenant jobs.
--
-- Locked jobs are skipped. `contended` says that there may be more jobs than were claimed. The inputs have at most
-- :max_bytes together. Small jobs with at most :max_passing_bytes together pass those that do not fit. `next_bytes` are
-- those of the first job that did not fit. `late` says that a job was left that could have been claimed, and has waited
-- for :late_seconds. Of tenants :on_probation only suspects are claimed.
WITH tenants AS MATERIALIZED (
  SELECT *
  FROM waiting_tenants(:model, :priority, :last_tenant, :count + 10, :closed_tenants)
    WITH ORDINALITY AS tenant(id, turn)
), candidates AS MATERIALIZED ( -- more than wanted: others may be locked, or not fit
  SELECT job.id, job.input_bytes, job.run_at,
    row_number() OVER (ORDER BY coalesce(busy.jobs, 0) + job.place, tenant.turn) AS number
  FROM tenants tenant
  LEFT JOIN unnest(:busy_tenants::uuid[], :busy_jobs::integer[]) AS busy(id, jobs) ON busy.id = tenant.id
  CROSS JOIN LATERAL claimable_jobs(
    :model, :priority, tenant.id, least(2 * :count::integer, :per_tenant::integer - coalesce(busy.jobs, 0))
  ) job
  WHERE job.suspected OR NOT tenant.id = ANY(:on_probation::uuid[])
  ORDER BY number
  LIMIT 2 * :count::integer + 20
), sized AS MATERIALIZED (
  SELECT *, sum(input_bytes) OVER turns <= :max_bytes::bigint AS fits,
    input_bytes <= :max_passing_bytes AND
      sum(input_bytes) FILTER (WHERE input_bytes <= :max_passing_bytes::bigint) OVER turns <= :max_passing_bytes
      AS passes
  FROM candidates
  WINDOW turns AS (ORDER BY number)
), locked AS MATERIALIZED (
  SELECT id, number, NOT fits AS passed
  FROM sized
  CROSS JOIN LATERAL (
    SELECT FROM live_jobs
    -- Written so that only the primary key fits this condition, and no partial index.
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
  RETURNING j.*, locked.number, locked.passed,
    coalesce('job.started' = ANY(j.callback_events), false) OR EXISTS (
      SELECT FROM webhooks w WHERE w.tenant_id = j.tenant_id AND w.events && event_patterns('job.started')
    ) AS wants_started
)
SELECT search.*, claimed.*
FROM (
  SELECT
    jobs < :count
      AND (jobs < count(*) FILTER (WHERE fits OR passes) OR (SELECT count(*) FROM tenants) > :count + 9) AS contended,
    (array_agg(input_bytes ORDER BY number)
      FILTER (WHERE NOT fits AND NOT passes AND (jobs < :count OR number < last)))[1]
      AS next_bytes,
    coalesce(bool_or(
      (fits OR passes) AND number > last AND run_at <= now() - make_interval(secs => :late_seconds::double precision)
    ), false) AS late
  FROM (SELECT count(*) AS jobs, max(number) AS last FROM locked) found
  LEFT JOIN sized ON true
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
