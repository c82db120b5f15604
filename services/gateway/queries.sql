-- name: find_keys
-- The API keys with these hashes that are not revoked; stale where their last use is to be noted again.
SELECT key_hash, id, tenant_id, scopes, rate_limit,
       coalesce(last_used_at < now() - interval '1 minute', true) AS stale
FROM api_keys
WHERE key_hash = ANY($1::bytea[]) AND revoked_at IS NULL;

-- name: note_uses
-- That keys ($1) were used. One that another gateway notes at the moment is left to it.
WITH free AS (
  SELECT id FROM api_keys WHERE id = ANY($1::uuid[]) FOR UPDATE SKIP LOCKED
)
UPDATE api_keys SET last_used_at = now() FROM free WHERE api_keys.id = free.id;

-- name: add_tenant
INSERT INTO tenants (id, name, webhook_secret) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING;

-- name: find_tenant
SELECT id FROM tenants WHERE name = $1;

-- name: add_key
INSERT INTO api_keys (id, tenant_id, name, key_hash, scopes, rate_limit)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (key_hash) DO NOTHING;

-- name: list_models
-- The catalogue; a row that no dispatcher has refreshed for a while counts as not ready.
SELECT name, version, ready AND updated_at > now() - interval '30 seconds' AS ready,
       decoupled, max_batch_size, inputs, outputs
FROM models
ORDER BY name, version;

-- name: count_queued
-- Waiting jobs by model and priority: those that have not ended and are not running.
SELECT model, priority, count(*) AS jobs
FROM jobs
WHERE finished_at IS NULL AND lease_until IS NULL
GROUP BY model, priority;

-- name: submit_jobs
-- Jobs with their inputs, each with its doorbell unless it is scheduled: then a sweeper rings when it is due. Of those
-- with the same idempotency key the first, and none where the key was used within a day: those are not returned. Nor are
-- those whose caller's key (caller, where it is to be checked) is not valid.
WITH given AS (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::timestamptz[],
              $8::double precision[], $9::double precision[], $10::double precision[], $11::double precision[],
              $12::text[], $13::text[],
              $14::bytea[], $15::bytea[], $16::bytea[], $17::text[], $18::text[],
              $19::uuid[], $20::text[], $21::text[], $22::bytea[], $23::text[], $24::bytea[], $25::uuid[], $26::uuid[])
    AS t(id, tenant_id, model, version, priority, max_attempts, run_at,
         expires_in, timeout, initial_delay, max_delay,
         fallback_model, traceparent,
         tensors, parameters, metadata, callback_url, callback_events,
         message_id, exchange, routing_key, message, key, fingerprint, batch_id, caller)
), chosen AS (
  SELECT DISTINCT ON (tenant_id, coalesce(key, id::text)) *, greatest(run_at, now()) AS due_at
  FROM given
  WHERE caller IS NULL OR EXISTS (SELECT FROM api_keys WHERE id = caller AND revoked_at IS NULL)
  ORDER BY tenant_id, coalesce(key, id::text), id
), named AS (
  INSERT INTO idempotency_keys AS used (tenant_id, key, fingerprint, job_id, run_at, expires_at, traceparent)
  SELECT tenant_id, key, fingerprint, id, due_at, due_at + make_interval(secs => expires_in), traceparent
  FROM chosen
  WHERE key IS NOT NULL
  ORDER BY tenant_id, key
  ON CONFLICT (tenant_id, key) DO UPDATE
  SET fingerprint = excluded.fingerprint,
      job_id = excluded.job_id,
      batch_id = NULL,
      created_at = now(),
      run_at = excluded.run_at,
      expires_at = excluded.expires_at,
      traceparent = excluded.traceparent,
      answer = NULL
  WHERE used.created_at < now() - interval '1 day'
  RETURNING job_id
), new AS (
  SELECT * FROM chosen WHERE key IS NULL OR id IN (SELECT job_id FROM named)
), added AS (
  INSERT INTO jobs (id, tenant_id, model, version, priority, status, max_attempts, run_at, ring_at, expires_at,
                    timeout, initial_delay, max_delay, fallback_model, traceparent, batch_id)
  SELECT id, tenant_id, model, version, priority, 'queued', max_attempts,
         due_at,
         CASE WHEN run_at > now() THEN run_at ELSE now() + interval '1 minute' END,
         due_at + make_interval(secs => expires_in),
         timeout, initial_delay, max_delay, fallback_model, traceparent, batch_id
  FROM new
  RETURNING id, created_at, run_at, expires_at
), inputs AS (
  INSERT INTO job_inputs (job_id, tensors, parameters, metadata, callback_url, callback_events)
  SELECT id, tensors, parameters, metadata, callback_url, string_to_array(callback_events, ',') FROM new
), messages AS (
  INSERT INTO outbox (id, exchange, routing_key, body, traceparent)
  SELECT message_id, exchange, routing_key, message, traceparent
  FROM new
  WHERE run_at IS NULL OR run_at <= now()
)
SELECT id, created_at, run_at, expires_at FROM added;

-- name: find_job
-- A tenant's job with its outputs and the state of its webhooks.
SELECT
  j.*, i.metadata, o.outputs,
  CASE
    WHEN d.failed > 0 THEN 'failed'
    WHEN d.pending > 0 THEN 'pending'
    WHEN i.callback_url IS NOT NULL AND j.finished_at IS NULL THEN 'pending'
    WHEN 'job.' || j.status = ANY(i.callback_events) AND d.final_callbacks = 0 THEN 'pending'
    WHEN d.succeeded > 0 THEN 'succeeded'
    ELSE 'none'
  END AS webhook_status
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
LEFT JOIN job_outputs o ON o.job_id = j.id AND j.status = 'succeeded'
CROSS JOIN LATERAL (
  SELECT
    count(*) FILTER (WHERE d.status IN ('exhausted', 'canceled')) AS failed,
    count(*) FILTER (WHERE d.status = 'pending') AS pending,
    count(*) FILTER (WHERE d.status = 'succeeded') AS succeeded,
    count(*) FILTER (WHERE d.webhook_id IS NULL AND d.event_type = 'job.' || j.status) AS final_callbacks
  FROM deliveries d
  WHERE d.job_id = j.id
) d
WHERE j.id = $1 AND j.tenant_id = $2;

-- name: find_position
-- Which one is next but so many of a model ($1) and a priority ($2): a job ($4) of a tenant ($3), as tenants take turns in
-- claims. Before it come the older ones of its own; of each other tenant that waits at most one more than that; and all of
-- the classes above ($5). Counted up to $6 jobs, and of $7 other tenants. Only what may be claimed now is in the way.
WITH RECURSIVE own AS MATERIALIZED (
  SELECT count(*)::integer AS jobs
  FROM (
    SELECT
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id = $3 AND id < $4 AND ring_at > run_at
    ORDER BY tenant_id, id -- so that no other index is thought of
    LIMIT $6::integer
  ) ahead
), others AS (
  SELECT '00000000-0000-0000-0000-000000000000'::uuid AS tenant_id, 0 AS number, (SELECT jobs FROM own) AS total
  UNION ALL
  SELECT next.tenant_id, others.number + 1, others.total + counted.jobs
  FROM others
  CROSS JOIN LATERAL (
    SELECT tenant_id
    FROM jobs
    WHERE model = $1 AND priority = $2 AND tenant_id > others.tenant_id AND ring_at > run_at
    ORDER BY tenant_id, id
    LIMIT 1
  ) next
  CROSS JOIN LATERAL (
    SELECT count(*)::integer AS jobs
    FROM (
      SELECT
      FROM jobs
      WHERE model = $1 AND priority = $2 AND tenant_id = next.tenant_id AND next.tenant_id <> $3 AND ring_at > run_at
      ORDER BY tenant_id, id
      LIMIT least((SELECT jobs FROM own) + 1, $6 - others.total)
    ) waiting
  ) counted
  WHERE others.total < $6 AND others.number <= $7::integer
), above AS (
  SELECT count(*)::integer AS jobs
  FROM (
    SELECT
    FROM unnest($5::text[]) AS class (name)
    CROSS JOIN LATERAL (
      SELECT
      FROM jobs
      WHERE model = $1 AND priority = class.name AND ring_at > run_at
      ORDER BY tenant_id, id
      LIMIT $6
    ) each
    LIMIT $6 - (SELECT max(total) FROM others)
  ) waiting
)
SELECT (SELECT max(total) FROM others) + jobs + 1 AS position FROM above;

-- name: lock_job
-- A tenant's job, held until the transaction ends, with the database's time.
SELECT j.*, i.metadata, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.id = $1 AND j.tenant_id = $2
FOR UPDATE OF j;

-- name: cancel_queued
-- A locked job ($1) that has not begun ends at once ($2), with its event and the event's doorbell.
WITH ended AS (
  UPDATE jobs
  SET status = 'canceled', finished_at = $2, ring_at = NULL
  WHERE id = $1
  RETURNING id, tenant_id, model, claim
), recorded AS (
  INSERT INTO events (id, tenant_id, job_id, model, type, created_at, body, claim)
  SELECT $3, tenant_id, id, model, $4, $2, $5, claim FROM ended
)
INSERT INTO outbox (id, exchange, routing_key, body, traceparent) VALUES ($6, $7, $8, $9, $10);

-- name: cancel_running
-- A locked job ($1) that runs is to be canceled by its dispatcher, which is told.
WITH marked AS (
  UPDATE jobs SET status = 'canceling' WHERE id = $1 RETURNING id, claim
), noted AS (
  INSERT INTO job_steps (job_id, claim, number, type) SELECT id, claim, 2147483645, 'job.canceling' FROM marked
)
INSERT INTO outbox (id, exchange, routing_key, body, traceparent) VALUES ($2, $3, $4, $5, $6);

-- name: find_revivable
-- Those of a tenant's jobs ($2) that ended in one of these states ($3) and were not erased, with what their model takes.
SELECT j.id, j.model, i.tensors
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.tenant_id = $1 AND j.id = ANY($2::uuid[]) AND j.status = ANY($3::text[]) AND j.erased_at IS NULL;

-- name: revive_jobs
-- Jobs ($2) of a tenant that ended in one of these states ($3) begin anew, on another model ($4) where one is given.
-- That raises their claim, so nothing of an earlier life can pass for the new one's, nor can an end that somebody
-- meant for a job that had not been claimed yet.
WITH ended AS (
  SELECT id
  FROM jobs
  WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND status = ANY($3::text[]) AND erased_at IS NULL
  ORDER BY id
  FOR UPDATE
), forgotten AS (
  DELETE FROM job_outputs USING ended WHERE job_id = ended.id
), revived AS (
  UPDATE jobs j
  SET status = 'queued',
      model = coalesce($4, j.model),
      version = CASE WHEN $4::text IS NULL THEN j.version END,
      attempt = 0,
      claim = claim + 1,
      interruptions = 0,
      run_at = now(),
      ring_at = now() + interval '1 minute',
      started_at = NULL,
      finished_at = NULL,
      expires_at = NULL,
      error_code = NULL,
      error_message = NULL,
      error_retryable = NULL,
      inference_ms = NULL
  FROM ended
  WHERE j.id = ended.id
  RETURNING j.id, j.model, j.priority, j.traceparent, j.claim
), noted AS (
  INSERT INTO job_steps (job_id, claim, number, type) SELECT id, claim, 0, 'job.queued' FROM revived
)
SELECT id, model, priority, traceparent FROM revived;

-- name: add_messages
-- Messages of jobs that begin anew.
INSERT INTO outbox (id, exchange, routing_key, body, traceparent)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[]);

-- name: list_attempts
-- The attempts at a tenant's job that have ended, oldest first.
SELECT a.attempt, a.model, a.worker, a.started_at, a.finished_at, a.status, a.error_code, a.error_message
FROM job_attempts a
JOIN jobs j ON j.id = a.job_id
WHERE a.job_id = $1 AND j.tenant_id = $2
ORDER BY a.claim;

-- name: list_dead
-- A page of a tenant's failed jobs, newest first, from before an id ($2), of a model ($3), with an error ($4), created
-- in a time ($5 to $6).
SELECT j.*, i.metadata
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.tenant_id = $1
  AND j.status = 'failed'
  AND j.erased_at IS NULL -- it can't be replayed
  AND j.id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  AND ($3::text IS NULL OR j.model = $3)
  AND ($4::text IS NULL OR j.error_code = $4)
  AND ($5::timestamptz IS NULL OR j.created_at >= $5)
  AND ($6::timestamptz IS NULL OR j.created_at < $6)
ORDER BY j.id DESC
LIMIT $7;

-- name: find_outputs
-- The outputs of a job that succeeded, whoever's it is: the caller has checked a signature.
SELECT o.outputs FROM jobs j JOIN job_outputs o ON o.job_id = j.id WHERE j.id = $1 AND j.status = 'succeeded';
