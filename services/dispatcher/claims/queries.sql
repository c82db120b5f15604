-- name: claim_jobs
-- Claims up to $3 jobs of a model ($1) and a priority ($2) for a worker ($7) and its session ($9), with a lease of $8
-- seconds.
--
-- Tenants share a model fairly. The tenant that runs the fewest jobs here goes first ($5 tenants, $6 jobs). Tenants
-- that run equally many take turns, beginning after the tenant served last ($4). Within a tenant, the oldest job goes
-- first. The search visits no more tenants and jobs than the claim may need. It passes over closed tenants ($10), and
-- leaves no tenant with more than $11 jobs.
--
-- Locked jobs are skipped. `contended` says that there may be more jobs than were claimed. The inputs have at most $12
-- bytes together. `next_bytes` are those of the first job that did not fit.
WITH tenants AS MATERIALIZED (
  SELECT * FROM waiting_tenants($1, $2, $4, $3 + 10, $10) WITH ORDINALITY AS tenant(id, turn)
), candidates AS MATERIALIZED ( -- twice as many as wanted: another dispatcher may hold the first ones
  SELECT job.id, row_number() OVER (ORDER BY coalesce(busy.jobs, 0) + job.place, tenant.turn) AS number
  FROM tenants tenant
  LEFT JOIN unnest($5::uuid[], $6::integer[]) AS busy(id, jobs) ON busy.id = tenant.id
  CROSS JOIN LATERAL (
    SELECT first.id, row_number() OVER (ORDER BY first.id) AS place
    FROM (
      SELECT id
      FROM jobs
      WHERE model = $1 AND priority = $2 AND tenant_id >= tenant.id AND tenant_id <= tenant.id
        AND status = 'queued' AND scheduled_at IS NULL
        AND (expires_at IS NULL OR expires_at > now() OR started_at IS NOT NULL)
      ORDER BY tenant_id, id -- so that the primary key's order is of no use
      LIMIT least(2 * $3::integer, $11::integer - coalesce(busy.jobs, 0))
    ) first
  ) job
  ORDER BY number
  LIMIT 2 * $3::integer
), locked AS MATERIALIZED (
  SELECT candidates.id, candidates.number, job.input_bytes
  FROM candidates
  CROSS JOIN LATERAL (
    SELECT input_bytes
    FROM jobs
    -- Written so that only the primary key fits this condition, and no partial index.
    WHERE id = candidates.id AND model = $1 AND priority = $2 AND coalesce(status = 'queued' AND scheduled_at IS NULL, false)
    FOR UPDATE SKIP LOCKED
  ) job
  LIMIT $3::integer
), sized AS MATERIALIZED (
  SELECT id, number, input_bytes, sum(input_bytes) OVER (ORDER BY number) <= $12::bigint AS fits FROM locked
), claimed AS (
  UPDATE jobs j
  SET status = 'processing',
      attempt = attempt + 1,
      claim = claim + 1,
      worker = $7,
      session = $9,
      lease_until = now() + make_interval(secs => $8::double precision),
      started_at = now()
  FROM sized
  JOIN job_inputs i ON i.job_id = sized.id
  WHERE j.id = sized.id AND sized.fits
  RETURNING
    j.*, i.tensors, i.parameters, i.metadata, sized.number,
    (
      coalesce('job.started' = ANY(i.callback_events), false)
      OR EXISTS (SELECT FROM webhooks w WHERE w.tenant_id = j.tenant_id AND w.events && event_patterns('job.started'))
    ) AS wants_started
)
SELECT search.*, claimed.*
FROM (
  SELECT count(*) < $3::integer
    AND (count(*) < (SELECT count(*) FROM candidates) OR (SELECT count(*) FROM tenants) > $3::integer + 9) AS contended,
    (array_agg(input_bytes ORDER BY number) FILTER (WHERE NOT fits))[1] AS next_bytes
  FROM sized
) search
LEFT JOIN claimed ON true
ORDER BY claimed.number;

-- name: renew_leases
-- Renews the leases of jobs ($1) under their claims ($2) by $3 seconds. Returns those still held, each with whether a
-- cancel was requested. A lost cancel message is therefore only a delay. Ends the probation of jobs that have survived it:
-- their dispatcher has just shown that it lives.
WITH held AS (
  SELECT j.id
  FROM jobs j
  JOIN unnest($1::uuid[], $2::bigint[]) AS t(id, claim) ON j.id = t.id AND j.claim = t.claim
  WHERE j.status IN ('processing', 'canceling')
  ORDER BY j.id
  FOR UPDATE OF j
)
UPDATE jobs j
SET lease_until = now() + make_interval(secs => $3::double precision),
    probation = CASE WHEN j.started_at > now() - make_interval(secs => j.probation) THEN j.probation END
FROM held
WHERE j.id = held.id
RETURNING j.id, j.status = 'canceling' AS canceling;
