-- name: find_overdue
-- Find up to $2 deliveries that have waited a whole schedule ($1, seconds) for an endpoint that
-- failed all that time. The open circuit kept them from using up attempts of their own.
SELECT d.id, e.id AS endpoint_id
FROM endpoints e
CROSS JOIN LATERAL (
  SELECT id
  FROM live_deliveries
  WHERE endpoint_id = e.id
    AND next_at IS NOT NULL
    AND (lease_until IS NULL OR lease_until <= now())
    AND schedule_started_at < now() - make_interval(secs => $1::double precision)
  LIMIT $2
) d
WHERE e.open_until IS NOT NULL
  AND e.failing_since < now() - make_interval(secs => $1::double precision)
  AND e.cancel_before IS NULL
LIMIT $2;

-- name: exhaust_deliveries
-- End these deliveries ($1) of locked endpoints, except those with an attempt in flight, and those whose endpoint has
-- worked or was ended since they were found.
UPDATE deliveries d
SET status = 'exhausted', next_at = NULL, finished_at = now(), lease_until = NULL, generation = event_generation
WHERE d.id = ANY($1::uuid[])
  AND d.generation = 0
  AND (d.lease_until IS NULL OR d.lease_until <= now())
  AND (SELECT e.open_until IS NOT NULL AND e.cancel_before IS NULL FROM endpoints e WHERE e.id = d.endpoint_id)
RETURNING id, tenant_id, job_id, traceparent;
