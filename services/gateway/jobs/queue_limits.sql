-- name: count_queues
-- Counts the waiting jobs of tenants ($1) and models ($2), each up to its limit: the tenant's own limit or $3, and $4 for
-- a model.
WITH limits AS (
  SELECT id, coalesce(max_queued, $3::integer) AS most FROM tenants WHERE id = ANY($1::uuid[])
)
SELECT l.id AS tenant_id, NULL AS model, l.most, (
  SELECT count(*)
  FROM (
    SELECT FROM jobs j WHERE j.tenant_id = l.id AND j.finished_at IS NULL AND j.worker IS NULL LIMIT l.most
  ) counted
) AS jobs
FROM limits l
UNION ALL
SELECT NULL, name, $4::integer, (
  SELECT count(*)
  FROM (
    SELECT FROM jobs j WHERE j.model = name AND j.finished_at IS NULL AND j.lease_until IS NULL LIMIT $4::integer
  ) counted
)
FROM unnest($2::text[]) name;

-- name: count_due
-- Counts the due jobs of tenants ($1) and models ($2), among at most $3 waiting jobs each. Returns the seconds until the
-- next job is due, and whether all waiting jobs were counted.
SELECT w.id AS tenant_id, w.name AS model, count(*) FILTER (WHERE w.run_at <= now()) AS jobs,
       extract(epoch FROM min(w.run_at) FILTER (WHERE w.run_at > now()) - now())::double precision AS next_in,
       count(*) < $3 AS whole
FROM (
  SELECT t.id, NULL AS name, run_at
  FROM unnest($1::uuid[]) AS t(id)
  CROSS JOIN LATERAL (
    SELECT j.run_at FROM jobs j WHERE j.tenant_id = t.id AND j.finished_at IS NULL AND j.worker IS NULL LIMIT $3
  ) waiting
  UNION ALL
  SELECT NULL, name, run_at
  FROM unnest($2::text[]) name
  CROSS JOIN LATERAL (
    SELECT j.run_at FROM jobs j WHERE j.model = name AND j.finished_at IS NULL AND j.lease_until IS NULL LIMIT $3
  ) waiting
) w
GROUP BY w.id, w.name;

-- name: count_ended
-- Counts the latest jobs, at most $1, that ended within a minute, by tenant and model. Returns the age of the first.
SELECT tenant_id, model, count(*) AS jobs, extract(epoch FROM now() - min(finished_at))::double precision AS seconds
FROM (
  SELECT tenant_id, model, finished_at
  FROM jobs
  WHERE finished_at > now() - interval '1 minute'
  ORDER BY finished_at DESC
  LIMIT $1
) latest
GROUP BY tenant_id, model;
