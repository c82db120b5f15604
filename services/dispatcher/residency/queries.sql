-- name: measure_demand
-- Counts what waits for each of these models ($1), up to $2 jobs of each priority and of up to $3 tenants, and what runs
-- at the dispatchers of a server ($4). Jobs of paused models and tenants do not count. Suspected poison jobs count once
-- they are due: they become claimable only when their model is ready. `deadline` is when the first job expires.
WITH RECURSIVE queues AS (
  (
    SELECT model, priority
    FROM live_jobs
    WHERE status = 'queued' AND scheduled_at IS NULL AND model >= ''
    ORDER BY model, priority
    LIMIT 1
  )
  UNION ALL
  SELECT next.model, next.priority
  FROM queues
  CROSS JOIN LATERAL (
    SELECT model, priority
    FROM live_jobs
    WHERE status = 'queued' AND scheduled_at IS NULL AND (model, priority) > (queues.model, queues.priority)
    ORDER BY model, priority
    LIMIT 1
  ) next
), waiting AS (
  SELECT q.model, q.priority, jobs.*
  FROM queues q
  CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(job.run_at) AS since, min(job.expires_at) FILTER (WHERE job.started_at IS NULL) AS deadline
    FROM (
      SELECT first.*
      FROM waiting_tenants(
        q.model, q.priority, '00000000-0000-0000-0000-000000000000', $3,
        ARRAY(SELECT id FROM tenants WHERE paused_at IS NOT NULL)
      ) tenant
      CROSS JOIN LATERAL (
        SELECT run_at, expires_at, started_at
        FROM live_jobs
        WHERE model = q.model AND priority = q.priority AND tenant_id >= tenant AND tenant_id <= tenant
          AND status = 'queued' AND scheduled_at IS NULL
          AND (expires_at IS NULL OR expires_at > now() OR started_at IS NOT NULL)
        ORDER BY tenant_id, id
        LIMIT $2
      ) first
      LIMIT $2
    ) job
  ) jobs
  WHERE q.model = ANY($1::text[])
  UNION ALL
  SELECT model, priority, count(*), min(scheduled_at), NULL
  FROM (
    SELECT model, priority, tenant_id, scheduled_at
    FROM live_jobs
    WHERE probation IS NOT NULL AND finished_at IS NULL AND scheduled_at <= now()
    ORDER BY scheduled_at
    LIMIT $2
  ) suspect
  WHERE model = ANY($1::text[]) AND tenant_id NOT IN (SELECT id FROM tenants WHERE paused_at IS NOT NULL)
  GROUP BY model, priority
), running AS (
  SELECT model, count(*) AS jobs
  FROM live_jobs
  WHERE lease_until > '-infinity' AND model = ANY($1::text[])
    AND worker IN (SELECT worker FROM dispatchers WHERE server = $4)
  GROUP BY model
)
SELECT
  model, coalesce(max(running.jobs), 0) AS running, coalesce(sum(waiting.jobs), 0)::bigint AS waiting,
  extract(epoch FROM min(since))::double precision AS since,
  extract(epoch FROM min(deadline))::double precision AS deadline,
  (array_agg(priority ORDER BY array_position(ARRAY['high', 'normal', 'low'], priority)))[1] AS priority
FROM (SELECT * FROM waiting WHERE jobs > 0 AND model NOT IN (SELECT model FROM model_limits WHERE paused_at IS NOT NULL)) waiting
FULL JOIN running USING (model)
GROUP BY model;
