-- name: find_expired
-- Finds queued jobs that did not start within their expires_in. A locked job is left for a later sweep. A job that waits for
-- its twin does not expire once that has started.
SELECT j.*, now() AS now
FROM live_jobs j
WHERE j.expires_at <= now() AND j.started_at IS NULL AND j.finished_at IS NULL
  AND NOT (
    j.reuse_key IS NOT NULL AND coalesce(j.scheduled_at = 'infinity', false) AND EXISTS (
      SELECT
      FROM twins t
      JOIN live_jobs twin ON twin.id = t.job_id
      WHERE t.tenant_id = j.tenant_id AND t.key = j.reuse_key AND twin.started_at IS NOT NULL
        AND twin.status IN ('queued', 'processing')
    )
  )
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
