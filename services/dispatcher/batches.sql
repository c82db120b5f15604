-- name: find_batches
-- The next $2 open batches behind an id ($1), each with whether all its jobs have ended.
SELECT
  b.id,
  NOT EXISTS (
    SELECT FROM jobs j WHERE j.batch_id = b.id AND j.status IN ('queued', 'processing', 'canceling')
  ) AS done
FROM batches b
WHERE b.finished_at IS NULL AND b.id > $1
ORDER BY b.id
LIMIT $2;

-- name: lock_batches
-- Those of the batches ($1) that are still open, and nobody else completes, with when the last of their jobs ended
-- (grouped, or the planner would rather look for the batch's among all ended jobs, from the last one on).
SELECT
  b.id, b.tenant_id, b.total, b.accepted, b.created_at, b.traceparent, now() AS now,
  coalesce((SELECT max(j.finished_at) FROM jobs j WHERE j.batch_id = b.id GROUP BY j.batch_id), now()) AS finished_at
FROM batches b
WHERE b.id = ANY($1::uuid[]) AND b.finished_at IS NULL
ORDER BY b.id
FOR UPDATE OF b SKIP LOCKED;

-- name: complete_batches
-- Locked batches have ended, which is told: each with its event and the event's doorbell.
WITH done AS (
  SELECT *
  FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::text[], $5::bytea[], $6::text[],
              $7::uuid[], $8::text[], $9::text[], $10::bytea[])
    AS t(id, finished_at, event_id, type, body, traceparent, message_id, exchange, routing_key, message)
), ended AS (
  UPDATE batches b
  SET finished_at = done.finished_at
  FROM done
  WHERE b.id = done.id AND b.finished_at IS NULL
  RETURNING b.id, b.tenant_id
), recorded AS (
  INSERT INTO events (id, tenant_id, type, body, traceparent)
  SELECT event_id, tenant_id, type, body, traceparent FROM done JOIN ended USING (id)
)
INSERT INTO outbox (id, exchange, routing_key, body, traceparent)
SELECT message_id, exchange, routing_key, message, traceparent FROM done JOIN ended USING (id);

-- name: purge_batches
-- Removes up to $2 batches that ended more than $1 seconds ago and whose jobs are gone.
DELETE FROM batches
WHERE id IN (
  SELECT b.id
  FROM batches b
  WHERE b.finished_at < now() - make_interval(secs => $1::double precision)
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id)
  ORDER BY b.finished_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)
RETURNING id;
