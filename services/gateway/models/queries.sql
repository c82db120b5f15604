-- name: list_models
-- All model versions, with the limits of their models. `reason` says why a version does not run, if a dispatcher knows. No
-- Triton has ever served a version that is not `declared`.
SELECT name, version, coalesce(m.ready, false) AS ready, m.name IS NOT NULL AS declared,
       coalesce(m.decoupled, false) AS decoupled, coalesce(m.max_batch_size, 0) AS max_batch_size,
       coalesce(m.inputs, '[]') AS inputs, coalesce(m.outputs, '[]') AS outputs,
       CASE WHEN m.ready IS NOT TRUE THEN u.reason END AS reason,
       l.max_running, l.max_running_per_tenant, l.paused_at IS NOT NULL AS paused
FROM models m
FULL JOIN (
  SELECT DISTINCT ON (name, version) name, version, reason
  FROM unloaded_models
  WHERE updated_at > now() - interval '30 seconds'
  ORDER BY name, version, updated_at DESC
) u USING (name, version)
LEFT JOIN model_limits l ON l.model = name
ORDER BY name, version;

-- name: count_queued
-- Counts waiting jobs by model and priority.
SELECT model, priority, count(*) AS jobs
FROM jobs
WHERE finished_at IS NULL AND lease_until IS NULL
GROUP BY model, priority;
