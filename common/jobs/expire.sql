-- name: find_expired
-- Finds queued jobs that did not start within their expires_in. A locked job is left for a later sweep.
SELECT j.*, now() AS now
FROM live_jobs j
WHERE j.expires_at <= now() AND j.started_at IS NULL AND j.finished_at IS NULL
ORDER BY j.expires_at
LIMIT :limit
FOR NO KEY UPDATE OF j SKIP LOCKED;

-- name: find_unserved
-- Finds up to :limit claimable jobs of :models that are not in the catalogue.
SELECT j.*, now() AS now
FROM live_jobs j
WHERE j.model = ANY(:models::text[]) AND j.status = 'queued' AND j.scheduled_at IS NULL
ORDER BY j.model, j.priority, j.tenant_id, j.id
LIMIT :limit;
