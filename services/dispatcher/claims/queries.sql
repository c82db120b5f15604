-- name: claim_jobs
-- Claims up to $3 jobs of a model ($1) and a priority ($2) for a worker ($7) in a session ($9), leased for $8 seconds.
--
-- Tenants share a model fairly. The tenant that runs the fewest jobs here goes first ($5 tenants, $6 jobs). Tenants
-- that run equally many take turns, beginning after the tenant served last ($4). Within a tenant, the oldest job goes
-- first. The search is bounded. It passes over closed tenants ($10), and leaves no tenant with more than $11 jobs.
--
-- Locked jobs are skipped. `contended` says that there may be more jobs than were claimed. The inputs have at most $12
-- bytes together. Small jobs with at most $13 bytes together pass those that do not fit. `next_bytes` are those of the
-- first job that did not fit. `late` says that a job was left that could have been claimed, and has waited for $14 seconds. Of
-- tenants on probation ($15) only suspects are claimed.
WITH tenants AS MATERIALIZED (
  SELECT * FROM waiting_tenants($1, $2, $4, $3 + 10, $10) WITH ORDINALITY AS tenant(id, turn)
), candidates AS MATERIALIZED ( -- more than wanted: others may be locked, or not fit
  SELECT job.id, job.input_bytes, job.run_at, row_number() OVER (ORDER BY coalesce(busy.jobs, 0) + job.place, tenant.turn) AS number
  FROM tenants tenant
  LEFT JOIN unnest($5::uuid[], $6::integer[]) AS busy(id, jobs) ON busy.id = tenant.id
  CROSS JOIN LATERAL claimable_jobs($1, $2, tenant.id, least(2 * $3::integer, $11::integer - coalesce(busy.jobs, 0))) job
  WHERE job.suspected OR NOT tenant.id = ANY($15::uuid[])
  ORDER BY number
  LIMIT 2 * $3::integer + 20
), sized AS MATERIALIZED (
  SELECT *, sum(input_bytes) OVER turns <= $12::bigint AS fits,
    input_bytes <= $13 AND sum(input_bytes) FILTER (WHERE input_bytes <= $13::bigint) OVER turns <= $13 AS passes
  FROM candidates
  WINDOW turns AS (ORDER BY number)
), locked AS MATERIALIZED (
  SELECT id, number, NOT fits AS passed
  FROM sized
  CROSS JOIN LATERAL (
    SELECT FROM jobs
    -- Written so that only the primary key fits this condition, and no partial index.
    WHERE id = sized.id AND model = $1 AND priority = $2 AND coalesce(status = 'queued' AND scheduled_at IS NULL, false)
    FOR UPDATE SKIP LOCKED
  ) job
  WHERE fits OR passes
  LIMIT $3::integer
), claimed AS (
  UPDATE jobs j
  SET status = 'processing', attempt = attempt + 1, claim = claim + 1, worker = $7, session = $9,
      lease_until = now() + make_interval(secs => $8::double precision), started_at = now()
  FROM locked
  JOIN job_inputs i ON i.job_id = locked.id
  WHERE j.id = locked.id
  RETURNING j.*, i.tensors, i.parameters, i.metadata, i.output_location, locked.number, locked.passed,
    coalesce('job.started' = ANY(i.callback_events), false) OR EXISTS (
      SELECT FROM webhooks w WHERE w.tenant_id = j.tenant_id AND w.events && event_patterns('job.started')
    ) AS wants_started
)
SELECT search.*, claimed.*
FROM (
  SELECT
    jobs < $3 AND (jobs < count(*) FILTER (WHERE fits OR passes) OR (SELECT count(*) FROM tenants) > $3 + 9) AS contended,
    (array_agg(input_bytes ORDER BY number) FILTER (WHERE NOT fits AND NOT passes AND (jobs < $3 OR number < last)))[1]
      AS next_bytes,
    coalesce(bool_or(
      (fits OR passes) AND number > last AND run_at <= now() - make_interval(secs => $14::double precision)
    ), false) AS late
  FROM (SELECT count(*) AS jobs, max(number) AS last FROM locked) found
  LEFT JOIN sized ON true
  GROUP BY jobs, last
) search
LEFT JOIN claimed ON true
ORDER BY claimed.number;

-- name: renew_leases
-- Renews the leases of jobs ($1) under their claims ($2) by $3 seconds, but for those of locked jobs: waiting for one lock
-- would let all other leases lapse. Returns the claims that are still held. `renewed` is false if the job was locked.
-- `canceling` says that a cancel was requested, so a lost cancel message is only a delay. Ends the probation of jobs that have
-- survived it: their dispatcher has just shown that it lives.
WITH held AS MATERIALIZED (
  SELECT j.id, j.claim, j.status = 'canceling' AS canceling
  FROM jobs j
  JOIN unnest($1::uuid[], $2::bigint[]) AS t(id, claim) ON j.id = t.id AND j.claim = t.claim
  WHERE j.status IN ('processing', 'canceling')
), locked AS MATERIALIZED (
  SELECT j.id
  FROM jobs j
  JOIN held ON j.id = held.id AND j.claim = held.claim
  WHERE j.status IN ('processing', 'canceling')
  FOR NO KEY UPDATE OF j SKIP LOCKED -- foreign keys do not conflict with it
), renewed AS (
  UPDATE jobs j
  SET lease_until = now() + make_interval(secs => $3::double precision),
      probation = CASE WHEN j.started_at > now() - make_interval(secs => j.probation) THEN j.probation END
  FROM locked
  WHERE j.id = locked.id
  RETURNING j.id
)
SELECT id, claim, canceling, id IN (SELECT id FROM renewed) AS renewed FROM held;
