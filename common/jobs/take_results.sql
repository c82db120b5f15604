-- name: find_groups
-- Finds the next :limit groups of jobs that wait for a twin, after a place (:tenant, :key), in the order of tenant and key. Each
-- says whether it has a twin that may still succeed.
WITH RECURSIVE groups AS (
  (
    SELECT tenant_id, reuse_key, 1 AS number
    FROM live_jobs
    WHERE reuse_key IS NOT NULL AND scheduled_at = 'infinity' AND (tenant_id, reuse_key) > (:tenant, :key::bytea)
    ORDER BY tenant_id, reuse_key
    LIMIT 1
  )
  UNION ALL
  SELECT next.tenant_id, next.reuse_key, number + 1
  FROM groups
  CROSS JOIN LATERAL (
    SELECT j.tenant_id, j.reuse_key
    FROM live_jobs j
    WHERE j.reuse_key IS NOT NULL AND j.scheduled_at = 'infinity'
      AND (j.tenant_id, j.reuse_key) > (groups.tenant_id, groups.reuse_key)
    ORDER BY j.tenant_id, j.reuse_key
    LIMIT 1
  ) next
  WHERE number < :limit
)
SELECT g.tenant_id, g.reuse_key AS key, coalesce(j.status IN ('queued', 'processing'), false) AS is_live
FROM groups g
LEFT JOIN twins t ON t.tenant_id = g.tenant_id AND t.key = g.reuse_key
LEFT JOIN live_jobs j ON j.id = t.job_id AND j.scheduled_at IS DISTINCT FROM 'infinity'
ORDER BY g.tenant_id, g.reuse_key;

-- name: list_joiners
-- Returns the first jobs of some groups that wait for the twin of a key, as many of each as its page takes, oldest first.
SELECT waiting.*, now() AS now
FROM unnest(:pages.key.tenant_id::uuid[], :pages.key.key::bytea[], :pages.size::integer[]) AS page(tenant_id, key, size)
CROSS JOIN LATERAL (
  SELECT *
  FROM job_facts j
  WHERE j.generation = 0 AND j.tenant_id = page.tenant_id AND j.reuse_key = page.key AND j.scheduled_at = 'infinity'
  ORDER BY j.id
  LIMIT page.size
) waiting
ORDER BY waiting.id;

-- name: take_results
-- Ends jobs that wait for a twin with its result, each with its event, under the twin's claim. None ends whose twin was
-- erased or removed meanwhile: the lock keeps it until the end. Leaves out jobs that are locked, or wait no more. Returns
-- those that ended.
WITH given AS (
  SELECT *
  FROM unnest(
    :ends.id::uuid[], :ends.twin::uuid[], :ends.claim::bigint[], :ends.finished_at::timestamptz[],
    :ends.event.id::uuid[], :ends.event.sequence::bigint[], :ends.event.type::text[], :ends.event.body::bytea[],
    :ends.event.traceparent::text[]
  ) AS t(id, twin, claim, finished_at, event_id, sequence, event_type, event_body, traceparent)
), maker AS MATERIALIZED (
  SELECT id, model, version, outputs, raw_outputs, output_file_bytes, load_id, prompt_tokens, completion_tokens,
         finish_reason
  FROM jobs
  WHERE id = ANY(:ends.twin::uuid[]) AND generation > 0 AND status = 'succeeded' AND erased_at IS NULL
  ORDER BY id
  FOR KEY SHARE
), locked AS MATERIALIZED (
  SELECT j.id
  FROM given
  JOIN live_jobs j ON j.id = given.id
  WHERE j.status = 'queued' AND coalesce(j.scheduled_at = 'infinity', false) AND given.twin IN (SELECT id FROM maker)
  ORDER BY j.id
  FOR UPDATE OF j SKIP LOCKED
), ended AS (
  UPDATE jobs j
  SET status = 'succeeded',
      model = maker.model,
      version = maker.version,
      claim = given.claim,
      finished_at = given.finished_at,
      generation = current_generation(),
      ended_xid = CASE WHEN j.parent IS NULL THEN pg_current_xact_id() END,
      scheduled_at = NULL,
      error_code = NULL,
      error_message = NULL,
      error_retryable = NULL,
      outputs = maker.outputs,
      raw_outputs = maker.raw_outputs,
      output_file_bytes = maker.output_file_bytes,
      prompt_tokens = maker.prompt_tokens,
      completion_tokens = maker.completion_tokens,
      finish_reason = maker.finish_reason,
      load_id = maker.load_id,
      reused_from = maker.id
  FROM locked JOIN given USING (id) JOIN maker ON maker.id = given.twin
  WHERE j.id = locked.id AND j.generation = 0
  RETURNING j.id, j.tenant_id, j.model, j.parent, j.callback_url, j.callback_events, j.output_file_bytes, j.reused_from
), shared AS (
  INSERT INTO shared_outputs (source, job_id)
  SELECT reused_from, id FROM ended WHERE output_file_bytes > 0
  ON CONFLICT DO NOTHING
), recorded AS (
  INSERT INTO events (id, tenant_id, job_id, model, sequence, type, created_at, body, claim, traceparent, callback_url)
  SELECT event_id, tenant_id, ended.id, model, sequence, event_type, finished_at, event_body, claim, traceparent,
         CASE WHEN callback_events && event_patterns(event_type) THEN callback_url END
  FROM ended JOIN given USING (id)
  WHERE parent IS NULL -- the run of a step has an entry for it
)
SELECT id FROM ended;

-- name: release_joiners
-- Makes those of the :jobs claimable that wait for a twin, each for itself. Leaves out jobs that are locked. Returns their
-- queues.
WITH locked AS MATERIALIZED (
  SELECT j.id
  FROM unnest(:jobs::uuid[]) AS given(id)
  JOIN live_jobs j ON j.id = given.id
  WHERE j.status = 'queued' AND coalesce(j.scheduled_at = 'infinity', false) AND j.reuse_key IS NOT NULL
  ORDER BY j.id
  FOR UPDATE OF j SKIP LOCKED
)
UPDATE live_jobs j
SET scheduled_at = NULL, run_at = now(), reuse_key = NULL, reuse_seconds = NULL
FROM locked
WHERE j.id = locked.id
RETURNING j.tenant_id, j.id, j.model, j.priority, j.traceparent;

-- name: remove_twins
-- Removes those of the next :limit twins after a place (:tenant, :key) whose job is gone and for whose place nobody waits.
-- Returns the last place, and how many were examined.
WITH page AS MATERIALIZED (
  SELECT tenant_id, key, job_id
  FROM twins
  WHERE (tenant_id, key) > (:tenant, :key::bytea)
  ORDER BY tenant_id, key
  LIMIT :limit
), removed AS (
  DELETE FROM twins t
  USING page
  WHERE t.tenant_id = page.tenant_id AND t.key = page.key AND t.job_id = page.job_id
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = page.job_id)
)
SELECT tenant_id, key, count(*) OVER () AS examined FROM page ORDER BY tenant_id DESC, key DESC LIMIT 1;
