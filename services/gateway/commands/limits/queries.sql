-- name: lock_model_limits
-- Locks the row of a model ($1), which it adds if it is missing. Returns what is set.
INSERT INTO model_limits (model) VALUES ($1)
ON CONFLICT (model) DO UPDATE SET model = excluded.model
RETURNING max_running, max_running_per_tenant, paused_at IS NOT NULL AS paused;

-- name: set_model_limits
-- Sets the limits of a locked model ($1): most running jobs ($2), most of one tenant ($3), and whether it is paused ($4).
UPDATE model_limits
SET max_running = $2, max_running_per_tenant = $3, paused_at = CASE WHEN $4 THEN coalesce(paused_at, now()) END
WHERE model = $1;

-- name: remove_model_limits
-- Removes the row of a model ($1) that has no limit and is not paused. Its claims then look at no limits.
DELETE FROM model_limits
WHERE model = $1 AND max_running IS NULL AND max_running_per_tenant IS NULL AND paused_at IS NULL;

-- name: find_model_limits
-- Finds the limits of a model ($1), and whether the model is in the catalogue.
SELECT max_running, max_running_per_tenant, paused_at, EXISTS (SELECT FROM models WHERE name = $1) AS known
FROM (SELECT $1::text AS name) wanted
LEFT JOIN model_limits l ON l.model = wanted.name;

-- name: set_tenant_paused
-- Pauses or resumes ($2) a tenant ($1). Returns the id if that is a change.
UPDATE tenants SET paused_at = CASE WHEN $2 THEN now() END WHERE id = $1 AND (paused_at IS NULL) = $2 RETURNING id;

-- name: set_tenant_retention
-- Sets for how many seconds ($2) ended jobs of a tenant ($1) are kept; NULL restores the dispatchers' setting. Returns the
-- id if that is a change.
UPDATE tenants SET retention = $2 WHERE id = $1 AND retention IS DISTINCT FROM $2 RETURNING id;

-- name: find_tenant_limits
-- Finds what operators have set for a tenant with a name ($1).
SELECT id, paused_at, retention FROM tenants WHERE name = $1;
