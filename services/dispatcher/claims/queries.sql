-- name: list_limits
-- Lists the models with limits, the paused tenants, and the tenants on probation with the model of each.
SELECT
  ARRAY(SELECT model FROM model_limits) AS models,
  ARRAY(SELECT model FROM tenants_on_probation ORDER BY model, tenant_id) AS probation_models,
  ARRAY(SELECT tenant_id FROM tenants_on_probation ORDER BY model, tenant_id) AS probation_tenants,
  ARRAY(SELECT id FROM tenants WHERE paused_at IS NOT NULL) AS paused_tenants;

-- name: find_next_jobs
-- Finds up to $2 claimable jobs of each priority ($3) of a model ($1). Returns what their wake-ups need.
SELECT job.*
FROM unnest($3::text[]) AS class(priority)
CROSS JOIN LATERAL (
  SELECT tenant_id, id, model, priority, traceparent
  FROM live_jobs
  WHERE model = $1 AND priority = class.priority AND status = 'queued' AND scheduled_at IS NULL
  ORDER BY tenant_id, id
  LIMIT $2
) job;
