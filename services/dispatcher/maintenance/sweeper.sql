-- name: take_due_jobs
-- Takes up to $1 queued jobs whose wake-up is due, each with whether its model is in the catalogue. They are
-- scheduled jobs, retries, and jobs whose message may have been lost. The next wake-up comes after the time they have
-- waited, so that a long queue is not filled with duplicate messages. Only queued jobs have a next_wake_up_at.
WITH due AS (
  SELECT id FROM jobs WHERE next_wake_up_at <= now() ORDER BY next_wake_up_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE jobs j
SET next_wake_up_at = now() + greatest(interval '1 minute', now() - j.run_at)
FROM due
WHERE j.id = due.id
RETURNING
  j.id, j.model, j.priority, j.traceparent,
  EXISTS (SELECT FROM models m WHERE m.name = j.model AND m.version = coalesce(j.version, m.version)) AS known;

-- name: add_messages
-- Adds messages to the outbox.
INSERT INTO outbox (id, exchange, routing_key, body, traceparent)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[]);

-- name: find_abandoned
-- Finds running jobs whose lease has lapsed. Their dispatcher died or lost its connection.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.lease_until < now()
ORDER BY j.lease_until
LIMIT $1;

-- name: find_expired
-- Finds queued jobs that did not start within their expires_in.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.expires_at <= now() AND j.started_at IS NULL AND j.finished_at IS NULL
ORDER BY j.expires_at
LIMIT $1;

-- name: find_queued
-- Finds the given jobs ($1) that are still queued.
SELECT j.*, i.metadata, NULL::bytea AS tensors, NULL::bytea AS parameters, false AS wants_started, now() AS now
FROM jobs j
JOIN job_inputs i ON i.job_id = j.id
WHERE j.id = ANY($1::uuid[]) AND j.status = 'queued';
