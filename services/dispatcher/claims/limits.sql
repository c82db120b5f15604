-- name: list_limits
-- Lists the models with limits, the paused tenants, and the tenants on probation with the model of each.
SELECT
  ARRAY(SELECT model FROM model_limits) AS models,
  ARRAY(SELECT model FROM tenants_on_probation ORDER BY model, tenant_id) AS probation_models,
  ARRAY(SELECT tenant_id FROM tenants_on_probation ORDER BY model, tenant_id) AS probation_tenants,
  ARRAY(SELECT id FROM tenants WHERE paused_at IS NOT NULL) AS paused_tenants;

-- name: lock_limits
-- Locks the limits of a model ($1), so that its claims take turns over all dispatchers. This lock comes before those of
-- jobs. Find the room with the next statement: after a wait, this one would not see the jobs of the claim before it.
SELECT FROM model_limits WHERE model = $1 FOR UPDATE;

-- name: find_room
-- Finds how many of the wanted jobs ($2) of a model ($1) may start now.
SELECT * FROM model_room($1, $2);

-- name: find_next_jobs
-- Finds up to $2 claimable jobs of each priority ($3) of a model ($1). Returns their priorities and traceparents.
SELECT class.priority, job.traceparent
FROM unnest($3::text[]) AS class(priority)
CROSS JOIN LATERAL (
  SELECT traceparent
  FROM jobs
  WHERE model = $1 AND priority = class.priority AND status = 'queued' AND scheduled_at IS NULL
  ORDER BY tenant_id, id
  LIMIT $2
) job;
