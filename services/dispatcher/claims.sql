-- name: claim_jobs
-- Claims up to $3 jobs of a model ($1) and a priority ($2) for a worker ($7), for a lease of $8 seconds. In turns: of the
-- tenants that wait, in order from behind the one served last ($4), goes first whoever runs least here ($5, $6), and of
-- each the oldest job, looked for from an id ($10) on where it is the one served last: what it had before is mostly
-- claimed, and to walk over what is left of that in the index takes time. Only what was rung for (ring_at > run_at): each
-- such job has a doorbell on its way, which claims another one when this one is gone. The work is bounded: it looks at no
-- more tenants, and jobs of each, than may be needed.
-- What somebody else holds is left out; `contended` says that there may be more, to which the claim had a right.
-- Of the suspects, interrupted $9 times, one runs at a time: the next interruption counts, and it shall not hit those
-- that only were there. The others are rung for again soon.
WITH RECURSIVE ahead AS (
  (
    SELECT tenant_id, id, 1 AS turn
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id > $4 AND ring_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  )
  UNION ALL
  SELECT next.tenant_id, next.id, ahead.turn + 1
  FROM ahead
  CROSS JOIN LATERAL (
    SELECT tenant_id, id
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id > ahead.tenant_id AND ring_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  ) next
  WHERE ahead.turn < $3::integer + 10
), behind AS (
  (
    SELECT tenant_id, id, (SELECT count(*)::integer FROM ahead) + 1 AS turn
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id < $4 AND ring_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  )
  UNION ALL
  SELECT next.tenant_id, next.id, behind.turn + 1
  FROM behind
  CROSS JOIN LATERAL (
    SELECT tenant_id, id
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id > behind.tenant_id AND tenant_id < $4 AND ring_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  ) next
  WHERE behind.turn < $3::integer + 10
), last AS (
  SELECT tenant_id, id, $3::integer + 100 AS turn
  FROM jobs
  WHERE model = $1 AND priority = $2 AND (tenant_id, id) >= ($4, $10::uuid) AND tenant_id <= $4 AND ring_at > run_at
  ORDER BY tenant_id, id -- so that the primary key's order is of no use
  LIMIT 1
), candidates AS MATERIALIZED ( -- twice as many as wanted: another dispatcher may be claiming the first ones
  SELECT job.id, row_number() OVER (ORDER BY coalesce(busy.jobs, 0) + job.place, waiting.turn) AS number
  FROM (SELECT * FROM ahead UNION ALL SELECT * FROM behind UNION ALL SELECT * FROM last) waiting
  LEFT JOIN unnest($5::uuid[], $6::integer[]) AS busy(tenant_id, jobs) USING (tenant_id)
  CROSS JOIN LATERAL (
    SELECT first.id, row_number() OVER (ORDER BY first.id) AS place
    FROM (
      SELECT id
      FROM jobs
      WHERE model = $1 AND priority = $2 AND ring_at > run_at
        AND (tenant_id, id) >= (waiting.tenant_id, waiting.id) AND tenant_id <= waiting.tenant_id
        AND (expires_at IS NULL OR expires_at > now() OR started_at IS NOT NULL)
      ORDER BY tenant_id, id
      LIMIT 2 * $3::integer
    ) first
    LIMIT 100
  ) job
  ORDER BY number
  LIMIT 2 * $3::integer
), chosen AS MATERIALIZED (
  SELECT candidates.id, candidates.number, held.suspect
  FROM candidates
  CROSS JOIN LATERAL (
    SELECT interruptions >= $9 AS suspect
    FROM jobs
    -- In these words no index's condition is implied but the primary key's.
    WHERE id = candidates.id AND model = $1 AND priority = $2 AND coalesce(ring_at > run_at, false)
    FOR UPDATE SKIP LOCKED
  ) held
  LIMIT $3::integer
), allowed AS (
  SELECT id, number FROM chosen WHERE NOT suspect
  UNION ALL
  (
    SELECT id, number
    FROM chosen
    WHERE suspect
      AND NOT EXISTS (SELECT FROM jobs other WHERE other.lease_until IS NOT NULL AND other.interruptions >= $9
                        AND other.id <> chosen.id) -- so that nothing is read where there is no suspect
    ORDER BY number
    LIMIT 1
  )
), put_off AS (
  UPDATE jobs
  SET run_at = now() + interval '1 second', ring_at = now() + interval '1 second'
  FROM chosen
  WHERE jobs.id = chosen.id AND suspect AND NOT EXISTS (SELECT FROM allowed WHERE allowed.id = chosen.id)
), claimed AS (
  UPDATE jobs j
  SET status = 'processing',
      attempt = attempt + 1,
      claim = claim + 1,
      worker = $7,
      lease_until = now() + make_interval(secs => $8::double precision),
      started_at = now(),
      ring_at = NULL
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
SELECT look.contended, claimed.*
FROM (
  SELECT count(*) < $3::integer
    AND (count(*) < (SELECT count(*) FROM candidates)
         OR (SELECT count(*) FROM ahead) + (SELECT count(*) FROM behind) > $3::integer + 9) AS contended
  FROM chosen
) look
LEFT JOIN claimed ON true
ORDER BY claimed.number;
