-- name: find_waiting_queues
-- Finds the queues with jobs that have been claimable for $1 seconds. Returns the tenants, ids and traceparents of these jobs,
-- up to $2, and whether the model is in the catalogue. Leaves out what may not start: jobs of paused models and tenants, and jobs
-- beyond the limits of their model.
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
)
SELECT
  queues.model, queues.priority, waiting.tenants, waiting.ids, waiting.traceparents,
  EXISTS (SELECT FROM models WHERE models.name = queues.model) AS known
FROM queues
CROSS JOIN LATERAL model_room(queues.model, $2) room
CROSS JOIN LATERAL (
  SELECT array_agg(first.tenant_id) AS tenants, array_agg(first.id) AS ids, array_agg(first.traceparent) AS traceparents
  FROM (
    SELECT job.*
    FROM waiting_tenants(queues.model, queues.priority, $3, sign(room.jobs)::integer * $2, room.closed) tenant
    CROSS JOIN LATERAL (
      SELECT tenant_id, id, traceparent
      FROM live_jobs
      WHERE model = queues.model AND priority = queues.priority AND tenant_id >= tenant AND tenant_id <= tenant
        AND status = 'queued' AND scheduled_at IS NULL
        AND run_at <= now() - make_interval(secs => $1::double precision)
      ORDER BY tenant_id, id
      LIMIT room.jobs
    ) job
    LIMIT room.jobs
  ) first
) waiting
WHERE waiting.traceparents IS NOT NULL;
