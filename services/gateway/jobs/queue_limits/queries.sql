-- name: count_queues
-- Counts the waiting jobs of tenants ($1) and models ($2), each up to its limit: the tenant's own limit or $3, and $4 for
-- a model. Adds up the bytes of a tenant's inputs. A run counts until it ends, as jobs of its steps wait again and again.
WITH limits AS (
  SELECT id, coalesce(max_queued, $3::integer) AS most FROM tenants WHERE id = ANY($1::uuid[])
)
SELECT l.id AS tenant_id, NULL AS model, l.most, waiting.jobs, waiting.bytes
FROM limits l
CROSS JOIN LATERAL (
  SELECT count(*) AS jobs, coalesce(sum(input_bytes), 0) AS bytes
  FROM (
    (
      SELECT j.input_bytes
      FROM live_jobs j
      WHERE j.tenant_id BETWEEN l.id AND l.id AND j.finished_at IS NULL AND j.lease_until IS NULL
      ORDER BY j.tenant_id, j.created_at -- so that the planner uses this index
      LIMIT l.most
    )
    UNION ALL
    (SELECT r.input_bytes FROM live_runs r WHERE r.tenant_id = l.id ORDER BY r.created_at LIMIT l.most)
  ) counted
) waiting
UNION ALL
SELECT NULL, name, $4::integer, (
  SELECT count(*)
  FROM (
    SELECT
    FROM live_jobs j
    WHERE j.model BETWEEN name AND name AND j.finished_at IS NULL AND j.lease_until IS NULL
    ORDER BY j.model, j.priority
    LIMIT $4::integer
  ) counted
), 0
FROM unnest($2::text[]) name;
