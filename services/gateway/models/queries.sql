-- name: list_models
-- All model versions. A row that no dispatcher has refreshed for 30 seconds counts as not ready.
SELECT name, version, ready AND updated_at > now() - interval '30 seconds' AS ready,
       decoupled, max_batch_size, inputs, outputs
FROM models
ORDER BY name, version;

-- name: count_queued
-- Counts waiting jobs by model and priority.
SELECT model, priority, count(*) AS jobs
FROM jobs
WHERE finished_at IS NULL AND lease_until IS NULL
GROUP BY model, priority;
