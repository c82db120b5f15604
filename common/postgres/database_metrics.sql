-- name: disable_jit
-- For this transaction: compiling a plan takes longer than the whole count.
SELECT set_config('jit', 'off', true);

-- name: count_queues
-- Return each model's waiting jobs by priority ($1): how many there are, how many can run now or wait for the result of
-- another job, how many of the former are of
-- tenants that are not paused, and how many seconds the oldest has waited. Count up to $2 jobs, in the order of their ids.
-- Return also what an operator set for the model.
SELECT m.name AS model, p.priority, l.paused_at IS NOT NULL AS is_paused, l.max_running, queue.*
FROM (SELECT DISTINCT name FROM models) m
LEFT JOIN model_limits l ON l.model = m.name
CROSS JOIN unnest($1::text[]) p(priority)
CROSS JOIN LATERAL (
  SELECT
    count(*) AS waiting,
    count(*) FILTER (WHERE scheduled_at IS NULL) AS ready,
    count(*) FILTER (WHERE scheduled_at = 'infinity') AS joined,
    count(*) FILTER (
      WHERE scheduled_at IS NULL AND tenant_id NOT IN (SELECT id FROM tenants WHERE paused_at IS NOT NULL)
    ) AS of_active_tenants,
    extract(epoch FROM now() - min(run_at) FILTER (WHERE scheduled_at IS NULL))::double precision AS seconds
  FROM (
    SELECT scheduled_at, run_at, tenant_id
    FROM live_jobs j
    WHERE j.model = m.name AND j.priority >= p.priority AND j.priority <= p.priority
      AND j.finished_at IS NULL AND j.lease_until IS NULL
    ORDER BY j.priority, j.id -- for one priority, the order of the primary key would do too, and the planner would often use it
    LIMIT $2
  ) counted
) queue;

-- name: count_running
-- Return the running jobs by model, and how many seconds the oldest has run. There are never more than concurrency allows.
SELECT
  model,
  count(*) FILTER (WHERE status = 'processing') AS processing,
  count(*) FILTER (WHERE status = 'canceling') AS canceling,
  extract(epoch FROM now() - min(started_at))::double precision AS seconds
FROM live_jobs
WHERE lease_until > '-infinity'
GROUP BY model;

-- name: count_totals
-- Return everything else. Each count goes up to $1, ages are in seconds. due_seconds is for the 100 endpoints that have been
-- due longest: how long their oldest delivery has been due.
SELECT
  (
    SELECT count(*)
    FROM (
      SELECT FROM jobs
      WHERE generation > 0 AND tenant_id >= $2::uuid AND status = 'failed' AND erased_at IS NULL AND parent IS NULL
      ORDER BY tenant_id, id
      LIMIT $1
    ) counted
  ) AS dead_letters,
  (
    SELECT count(*)
    FROM (
      SELECT FROM live_deliveries
      WHERE tenant_id >= $2::uuid AND status = 'pending' AND next_at IS NULL
      ORDER BY tenant_id, created_at
      LIMIT $1
    ) counted
  ) AS new_deliveries,
  (SELECT extract(epoch FROM now() - min(created_at))::double precision FROM oldest_new_deliveries) AS new_seconds,
  (
    SELECT extract(epoch FROM now() - min(d.next_at))::double precision
    FROM (SELECT id FROM endpoints WHERE next_at <= now() ORDER BY next_at LIMIT 100) e
    CROSS JOIN LATERAL (
      SELECT next_at FROM live_deliveries WHERE endpoint_id = e.id AND next_at <= now() ORDER BY next_at LIMIT 1
    ) d
  ) AS due_seconds,
  (
    SELECT count(*)
    FROM (SELECT FROM webhooks WHERE disabled_at > '-infinity' AND disabled_reason <> 'manual' LIMIT $1) counted
  ) AS disabled,
  (SELECT count(*) FROM (SELECT FROM endpoints WHERE open_until > '-infinity' LIMIT $1) counted) AS open;
