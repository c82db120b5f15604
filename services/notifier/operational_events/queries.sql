-- name: find_exhausted
-- Return exhausted deliveries ($1) as `delivery.exhausted` shows them. Deliveries of operational
-- events are left out: events about them would never end.
SELECT id, tenant_id, event_id, event_type, job_id, webhook_id, url, status, created_at, next_at, finished_at, traceparent
FROM deliveries
WHERE id = ANY($1::uuid[]) AND job_id IS NOT NULL;

-- name: add_events
-- Add operational events, each with the job whose webhook it is about.
INSERT INTO events (id, tenant_id, type, body, traceparent, about_job_id)
SELECT *
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::text[], $6::uuid[])
  AS t(id, tenant_id, type, body, traceparent, about_job_id);
