-- name: claim_jobs
-- Claims up to $3 jobs of a model ($1) and a priority ($2) for a worker ($7), with a lease of $8 seconds.
--
-- Tenants share a model fairly. The tenant that runs the fewest jobs here goes first ($5 tenants, $6 jobs). Tenants
-- that run equally many take turns, beginning after the tenant served last ($4). Within a tenant, the oldest job goes
-- first. The search in the tenant served last begins at an id ($10): most of its older jobs are claimed already, and
-- their dead index entries take time.
--
-- Only jobs that were announced (next_wake_up_at > run_at) are candidates. Each of them has a wake-up on its way,
-- which claims another job if this one is gone. The search visits no more tenants and jobs than the claim may need.
--
-- Locked jobs are skipped. `contended` says that there may be more jobs than were claimed.
--
-- A job that was interrupted $9 times is suspected poison: it may crash Triton. Only one such job runs at a time, so
-- that the next crash does not count against the others. The rest is put off for a second.
WITH RECURSIVE tenants_after AS (
  (
    SELECT tenant_id, id, 1 AS turn
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id > $4 AND next_wake_up_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  )
  UNION ALL
  SELECT next.tenant_id, next.id, tenants_after.turn + 1
  FROM tenants_after
  CROSS JOIN LATERAL (
    SELECT tenant_id, id
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id > tenants_after.tenant_id AND next_wake_up_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  ) next
  WHERE tenants_after.turn < $3::integer + 10
), tenants_before AS (
  (
    SELECT tenant_id, id, (SELECT count(*)::integer FROM tenants_after) + 1 AS turn
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id < $4 AND next_wake_up_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  )
  UNION ALL
  SELECT next.tenant_id, next.id, tenants_before.turn + 1
  FROM tenants_before
  CROSS JOIN LATERAL (
    SELECT tenant_id, id
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id > tenants_before.tenant_id AND tenant_id < $4
      AND next_wake_up_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  ) next
  WHERE tenants_before.turn < $3::integer + 10
), last_tenant AS (
  SELECT tenant_id, id, $3::integer + 100 AS turn
  FROM jobs
  WHERE model = $1 AND priority = $2 AND (tenant_id, id) >= ($4, $10::uuid) AND tenant_id <= $4
    AND next_wake_up_at > run_at
  ORDER BY tenant_id, id -- so that the primary key's order is of no use
  LIMIT 1
), candidates AS MATERIALIZED ( -- twice as many as wanted: another dispatcher may hold the first ones
  SELECT job.id, row_number() OVER (ORDER BY coalesce(busy.jobs, 0) + job.place, tenant.turn) AS number
  FROM (SELECT * FROM tenants_after UNION ALL SELECT * FROM tenants_before UNION ALL SELECT * FROM last_tenant) tenant
  LEFT JOIN unnest($5::uuid[], $6::integer[]) AS busy(tenant_id, jobs) USING (tenant_id)
  CROSS JOIN LATERAL (
    SELECT first.id, row_number() OVER (ORDER BY first.id) AS place
    FROM (
      SELECT id
      FROM jobs
      WHERE model = $1 AND priority = $2 AND next_wake_up_at > run_at
        AND (tenant_id, id) >= (tenant.tenant_id, tenant.id) AND tenant_id <= tenant.tenant_id
        AND (expires_at IS NULL OR expires_at > now() OR started_at IS NOT NULL)
      ORDER BY tenant_id, id
      LIMIT 2 * $3::integer
    ) first
    LIMIT 100
  ) job
  ORDER BY number
  LIMIT 2 * $3::integer
), locked AS MATERIALIZED (
  SELECT candidates.id, candidates.number, job.suspected_poison
  FROM candidates
  CROSS JOIN LATERAL (
    SELECT interruptions >= $9 AS suspected_poison
    FROM jobs
    -- Written so that only the primary key fits this condition, and no partial index.
    WHERE id = candidates.id AND model = $1 AND priority = $2 AND coalesce(next_wake_up_at > run_at, false)
    FOR UPDATE SKIP LOCKED
  ) job
  LIMIT $3::integer
), allowed AS (
  SELECT id, number FROM locked WHERE NOT suspected_poison
  UNION ALL
  (
    SELECT id, number
    FROM locked
    WHERE suspected_poison
      AND NOT EXISTS (SELECT FROM jobs other WHERE other.lease_until IS NOT NULL AND other.interruptions >= $9
                        AND other.id <> locked.id) -- correlated, so that it runs only if such a job is locked
    ORDER BY number
    LIMIT 1
  )
), put_off AS (
  UPDATE jobs
  SET run_at = now() + interval '1 second', next_wake_up_at = now() + interval '1 second'
  FROM locked
  WHERE jobs.id = locked.id AND suspected_poison AND NOT EXISTS (SELECT FROM allowed WHERE allowed.id = locked.id)
), claimed AS (
  UPDATE jobs j
  SET status = 'processing',
      attempt = attempt + 1,
      claim = claim + 1,
      worker = $7,
      lease_until = now() + make_interval(secs => $8::double precision),
      started_at = now(),
      next_wake_up_at = NULL
  FROM allowed
  JOIN job_inputs i ON i.job_id = allowed.id
  WHERE j.id = allowed.id
  RETURNING
    j.*, i.tensors, i.parameters, i.metadata, allowed.number,
    (
      coalesce('job.started' = ANY(i.callback_events), false)
      OR EXISTS (
        SELECT 1
        FROM webhooks w, unnest(w.events) pattern
        WHERE w.tenant_id = j.tenant_id AND 'job.started' LIKE replace(pattern, '*', '%')
      )
    ) AS wants_started
)
SELECT search.contended, claimed.*
FROM (
  SELECT count(*) < $3::integer
    AND (count(*) < (SELECT count(*) FROM candidates)
         OR (SELECT count(*) FROM tenants_after) + (SELECT count(*) FROM tenants_before) > $3::integer + 9) AS contended
  FROM locked
) search
LEFT JOIN claimed ON true
ORDER BY claimed.number;

-- name: renew_leases
-- Renews the leases of jobs ($1) under their claims ($2) by $3 seconds. Returns those still held, each with whether a
-- cancel was requested. A lost cancel message is therefore only a delay.
WITH held AS (
  SELECT j.id
  FROM jobs j
  JOIN unnest($1::uuid[], $2::bigint[]) AS t(id, claim) ON j.id = t.id AND j.claim = t.claim
  WHERE j.status IN ('processing', 'canceling')
  ORDER BY j.id
  FOR UPDATE OF j
)
UPDATE jobs j
SET lease_until = now() + make_interval(secs => $3::double precision)
FROM held
WHERE j.id = held.id
RETURNING j.id, j.status = 'canceling' AS canceling;
