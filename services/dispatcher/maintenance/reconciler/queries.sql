-- name: find_waiting_queues
-- Finds the queues with jobs that have been claimable for $1 seconds. Returns the tenants, ids and traceparents of these
-- jobs, up to $2, and whether the model is in the catalogue. Leaves out what may not start: jobs of paused models and
-- tenants, and jobs beyond the limits of their model. Tenants take turns, beginning after the last one ($5) of a queue
-- (model $3, priority $4): claims take turns too, so the jobs that start are those that are announced.
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
  model, priority, waiting.tenants, waiting.ids, waiting.traceparents,
  EXISTS (SELECT FROM models WHERE models.name = model) AS known
FROM queues
LEFT JOIN unnest($3::text[], $4::text[], $5::uuid[]) AS last(model, priority, tenant) USING (model, priority)
CROSS JOIN LATERAL model_room(queues.model, $2) room
CROSS JOIN LATERAL (
  SELECT array_agg(first.tenant_id) AS tenants, array_agg(first.id) AS ids, array_agg(first.traceparent) AS traceparents
  FROM (
    SELECT job.*
    FROM (
      SELECT id, turn, count(*) OVER () AS tenants
      FROM waiting_tenants(
        queues.model, queues.priority, coalesce(last.tenant, $6), sign(room.jobs)::integer * $2, room.closed
      ) WITH ORDINALITY AS waiting(id, turn)
    ) tenant
    CROSS JOIN LATERAL (
      SELECT tenant_id, id, traceparent, row_number() OVER (ORDER BY tenant_id, id) AS place
      FROM live_jobs
      WHERE model = queues.model AND priority = queues.priority AND tenant_id >= tenant.id AND tenant_id <= tenant.id
        AND status = 'queued' AND scheduled_at IS NULL
        AND run_at <= now() - make_interval(secs => $1::double precision)
      ORDER BY tenant_id, id
      LIMIT (room.jobs + tenant.tenants - 1) / tenant.tenants
    ) job
    ORDER BY job.place, tenant.turn
    LIMIT room.jobs
  ) first
) waiting
WHERE waiting.traceparents IS NOT NULL;
