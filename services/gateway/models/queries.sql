-- name: list_models
-- All model versions, with the limits of their models.
SELECT m.name, m.version, m.ready, m.decoupled, m.max_batch_size, m.inputs, m.outputs,
       l.max_running, l.max_running_per_tenant, l.paused_at IS NOT NULL AS paused
FROM models m
LEFT JOIN model_limits l ON l.model = m.name
ORDER BY m.name, m.version;

-- name: count_queued
-- Counts waiting jobs by model and priority.
SELECT model, priority, count(*) AS jobs
FROM jobs
WHERE finished_at IS NULL AND lease_until IS NULL
GROUP BY model, priority;
