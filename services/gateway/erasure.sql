-- name: lock_job_events
-- All events of a job ($1), and those that tell of its webhooks, held until the transaction ends: none is fanned out.
SELECT id
FROM events
WHERE id IN (SELECT id FROM events WHERE job_id = $1 UNION ALL SELECT id FROM events WHERE about_job_id = $1)
ORDER BY id
FOR UPDATE;

-- name: lock_event_endpoints
-- Where these locked events ($1) are sent, held until the transaction ends: none of their deliveries is claimed or recorded.
SELECT id
FROM endpoints
WHERE id IN (SELECT endpoint_id FROM deliveries WHERE event_id = ANY($1::uuid[]))
ORDER BY id
FOR NO KEY UPDATE;

-- name: is_under_way
-- Whether a job's ($1) locked events ($2) are being sent at this moment, or there are more than are locked: one was told
-- of meanwhile.
SELECT
  (SELECT bool_or(lease_until > now()) FROM deliveries WHERE event_id = ANY($2::uuid[])) IS TRUE
  OR (SELECT count(*) FROM events WHERE job_id = $1) + (SELECT count(*) FROM events WHERE about_job_id = $1)
    > cardinality($2::uuid[]) AS under_way;

-- name: erase_job
-- A locked job ($1) keeps its state and its times; its events ($2) go, with their deliveries and what receivers answered.
WITH told AS (
  DELETE FROM events WHERE id = ANY($2::uuid[])
), answered AS (
  DELETE FROM job_outputs WHERE job_id = $1
), said AS (
  DELETE FROM job_steps WHERE job_id = $1
), asked AS (
  UPDATE job_inputs
  SET tensors = '', parameters = NULL, metadata = NULL, callback_url = NULL, callback_events = NULL
  WHERE job_id = $1
), tried AS (
  UPDATE job_attempts SET error_message = NULL WHERE job_id = $1 AND error_message IS NOT NULL
)
UPDATE jobs SET erased_at = now(), error_message = NULL WHERE id = $1;
