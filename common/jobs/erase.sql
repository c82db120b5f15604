-- name: lock_job_events
-- Locks all events of a :job, and the events about its deliveries.
SELECT id
FROM events
WHERE id IN (SELECT id FROM events WHERE job_id = :job UNION ALL SELECT id FROM events WHERE about_job_id = :job)
ORDER BY id
FOR UPDATE;

-- name: lock_event_endpoints
-- Locks the endpoints of locked :events, before their deliveries.
SELECT id
FROM endpoints
WHERE id IN (SELECT endpoint_id FROM deliveries WHERE event_id = ANY(:events::uuid[]))
ORDER BY id
FOR NO KEY UPDATE;

-- name: lock_event_deliveries
-- Locks the deliveries of locked :events. Until the transaction ends, none is claimed or recorded.
SELECT id FROM deliveries WHERE event_id = ANY(:events::uuid[]) ORDER BY id FOR UPDATE;

-- name: is_delivering
-- Returns whether one of a :job's locked :events is being sent now, or the job has new events that are not locked.
SELECT
  (SELECT bool_or(lease_until > now()) FROM deliveries WHERE event_id = ANY(:events::uuid[])) IS TRUE
  OR (SELECT count(*) FROM events WHERE job_id = :job) + (SELECT count(*) FROM events WHERE about_job_id = :job)
    > cardinality(:events::uuid[]) AS is_delivering;

-- name: erase_job
-- Erases the payload of a locked :job, and deletes its locked :events with their deliveries. The job keeps its status,
-- its times and the size of its input, which counts as usage.
WITH deleted_attempts AS (
  DELETE FROM attempts
  WHERE delivery_id IN (SELECT id FROM deliveries WHERE event_id = ANY(:events::uuid[]))
), deleted_deliveries AS (
  DELETE FROM deliveries WHERE event_id = ANY(:events::uuid[])
), deleted_events AS (
  DELETE FROM events WHERE id = ANY(:events::uuid[])
), deleted_steps AS (
  DELETE FROM job_steps WHERE job_id = :job
), own_files AS ( -- also those that another job reads: nobody may, from now on
  UPDATE files SET status = 'deleting', expires_at = now(), job_id = NULL WHERE job_id = :job
), erased_attempts AS (
  UPDATE job_attempts SET error_message = NULL WHERE job_id = :job AND error_message IS NOT NULL
)
UPDATE jobs
SET erased_at = now(), error_message = NULL, tensors = '', parameters = NULL, metadata = NULL, callback_url = NULL,
    callback_events = NULL, output_location = NULL, input_files = NULL, outputs = NULL, request = NULL,
    reuse_key = NULL
WHERE id = :job;
