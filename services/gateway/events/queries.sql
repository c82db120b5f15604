-- name: find_snapshots
-- Returns the snapshots of jobs and batches ($1). A batch has one step: its completion. It does not check the tenant:
-- clients never see a snapshot.
SELECT j.id, j.status, coalesce(t.claim, j.claim) AS claim,
       coalesce((
         SELECT max(s.number)
         FROM job_steps s
         WHERE s.job_id = coalesce(t.id, j.id) AND s.claim = coalesce(t.claim, j.claim)
       ), 0) AS steps,
       j.twin
FROM job_facts j
LEFT JOIN jobs t ON t.id = j.twin
WHERE j.id = ANY($1::uuid[])
UNION ALL
SELECT id, CASE WHEN finished_at IS NULL THEN 'processing' ELSE 'succeeded' END, 0, 0, NULL
FROM batches
WHERE id = ANY($1);

-- name: find_revoked
-- Returns the API keys among these ($1) that were revoked.
SELECT id FROM api_keys WHERE id = ANY($1::uuid[]) AND revoked_at IS NOT NULL;

-- name: find_traceparent
-- Returns the traceparent of a tenant's ($2) job ($1).
SELECT traceparent FROM jobs WHERE id = $1 AND tenant_id = $2;

-- name: list_history
-- Returns the events of a job ($1) after a position ($2, $3), in order: at most $4, and no more once the bodies reach $5
-- bytes. A body over $5 bytes, which is always of a response, is left out; its size is known.
--
-- A job that waits for a twin has the twin's starts and responses. Their attempts count up also if another job becomes the
-- twin. One that took a result has the responses of the attempt that made it, as long as its job has them.
--
-- Within a claim, event 0 is the start. Even numbers are responses, and the odd one between them is a cancel request.
-- 2147483646 is the return to the queue, 2147483647 the end.
WITH job AS MATERIALIZED (
  SELECT * FROM job_facts WHERE id = $1
), source AS MATERIALIZED (
  SELECT coalesce(reused_from, twin) AS id, CASE WHEN reused_from IS NOT NULL THEN claim END AS claim
  FROM job
  WHERE erased_at IS NULL
), history AS (
  SELECT 0::bigint AS claim, 0 AS number, 'job.queued' AS type, created_at AS at, NULL::bytea AS body,
         NULL::integer AS attempt, NULL::text AS model, NULL::text AS error_code, NULL::text AS error_message
  FROM job
  UNION ALL
  (
    SELECT claim, number, type, created_at, outputs, NULL, NULL, NULL, NULL
    FROM job_steps
    WHERE job_id = $1 AND (claim, number) > ($2, $3)
    ORDER BY claim, number
    LIMIT $4
  )
  UNION ALL
  (
    SELECT s.claim, s.number, s.type, s.created_at, s.outputs, NULL, NULL, NULL, NULL
    FROM source
    JOIN job_steps s ON s.job_id = source.id
    WHERE s.type = 'job.output' AND (s.claim, s.number) > ($2, $3) AND s.claim = coalesce(source.claim, s.claim)
    ORDER BY s.claim, s.number
    LIMIT $4
  )
  UNION ALL
  SELECT claim, 0, 'job.started', greatest(started_at, (SELECT created_at FROM job)), NULL, claim::integer, model, NULL,
         NULL
  FROM ended_attempts
  WHERE job_id = (SELECT id FROM source WHERE claim IS NULL)
  UNION ALL
  SELECT claim, 0, 'job.started', greatest(started_at, (SELECT created_at FROM job)), NULL, claim::integer, model, NULL,
         NULL
  FROM jobs
  WHERE id = (SELECT id FROM source WHERE claim IS NULL) AND lease_until IS NOT NULL
  UNION ALL
  SELECT claim, 0, 'job.started', started_at, NULL, attempt, model, NULL, NULL FROM ended_attempts WHERE job_id = $1
  UNION ALL
  SELECT claim, 0, 'job.started', started_at, NULL, attempt, model, NULL, NULL FROM job WHERE lease_until IS NOT NULL
  UNION ALL
  SELECT a.claim, 2147483646, 'job.queued', a.finished_at, NULL, a.attempt, a.model, a.error_code, a.error_message
  FROM job_attempts a
  WHERE a.job_id = $1
    AND a.status IN ('failed', 'returned')
    AND NOT EXISTS ( -- it did not end the job before a retry
      SELECT FROM events e WHERE e.job_id = $1 AND e.claim = a.claim AND e.created_at <= a.finished_at
    )
  UNION ALL
  SELECT claim, 2147483647, type, created_at, body, NULL, NULL, NULL, NULL
  FROM events
  WHERE job_id = $1 AND claim IS NOT NULL
  UNION ALL -- the end whose event was erased
  SELECT claim, 2147483647, 'job.' || status, finished_at, NULL, attempt, model, error_code, error_message
  FROM job
  WHERE finished_at IS NOT NULL AND NOT EXISTS (SELECT FROM events e WHERE e.job_id = $1 AND e.claim = job.claim)
)
SELECT claim, number, type, at, CASE WHEN octet_length(body) <= $5::bigint THEN body END AS body, attempt, model,
       error_code, error_message, coalesce(octet_length(body), 0) AS size,
       coalesce((SELECT reuse_key IS NOT NULL FROM job), false) AS is_shared
FROM (
  SELECT *, sum(octet_length(body)) OVER (
    ORDER BY claim, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS size_before
  FROM (SELECT * FROM history WHERE (claim, number) > ($2, $3) ORDER BY claim, number LIMIT $4) next
) page
WHERE coalesce(size_before, 0) < $5::bigint
ORDER BY claim, number;

-- name: read_response
-- Returns the outputs of a response ($1, $2, $3), which may be one of its twin's. It does not check the tenant: the caller
-- did.
SELECT s.outputs
FROM job_facts j
JOIN job_steps s ON s.job_id IN (j.id, j.reused_from, j.twin) AND s.claim = $2 AND s.number = $3
WHERE j.id = $1 AND j.erased_at IS NULL AND s.outputs IS NOT NULL;
