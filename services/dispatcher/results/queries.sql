-- name: record_starts
-- Records the events of starts, each only while its job runs under the given claim: after the end, it would come too
-- late.
WITH given AS (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::timestamptz[],
              $9::bytea[], $10::text[])
    AS t(id, tenant_id, job_id, claim, model, sequence, type, created_at, body, traceparent)
), running AS ( -- so that an end comes before or after
  SELECT id, claim, callback_url, callback_events
  FROM live_jobs
  WHERE id = ANY($3::uuid[]) AND lease_until IS NOT NULL
  ORDER BY id
  FOR KEY SHARE
)
INSERT INTO events (id, tenant_id, job_id, model, sequence, type, created_at, body, traceparent, callback_url)
SELECT given.id, tenant_id, job_id, model, sequence, type, created_at, body, traceparent,
       CASE WHEN callback_events && event_patterns(type) THEN callback_url END
FROM given
JOIN running ON running.id = given.job_id AND running.claim = given.claim;

-- name: add_files
-- Adds the files ($3) of a tenant ($1) that are about to be written, with their sizes ($4) and SHA-256 ($5). A sweeper
-- deletes them after $2 seconds, unless they belong to a job by then.
INSERT INTO files (id, tenant_id, content_type, size, sha256, kept, expires_at)
SELECT id, $1, 'application/octet-stream', size, sha256, $2, now() + make_interval(secs => $2)
FROM unnest($3::uuid[], $4::bigint[], $5::bytea[]) AS t(id, size, sha256)
ON CONFLICT DO NOTHING;

-- name: drop_files
-- Lets a sweeper delete those of the files ($1) that no job got, after $2 seconds.
UPDATE files
SET status = 'deleting', expires_at = now() + make_interval(secs => $2)
WHERE id IN (SELECT id FROM files WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE) AND status = 'uploading';

-- name: add_steps
-- Adds streamed responses, each only while its job runs under the given claim, and makes their files ($5, with the job,
-- the claim and the number) the job's. A repeated call adds nothing twice.
WITH running AS MATERIALIZED ( -- the lock lets neither the end nor a cancel request come between
  SELECT id, claim FROM live_jobs WHERE id = ANY($1::uuid[]) AND lease_until IS NOT NULL ORDER BY id FOR KEY SHARE
), added AS (
  INSERT INTO job_steps (job_id, claim, number, type, outputs)
  SELECT t.id, t.claim, t.number, 'job.output', t.outputs
  FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[]) AS t(id, claim, number, outputs)
  JOIN running j ON j.id = t.id AND j.claim = t.claim
  WHERE NOT EXISTS ( -- in an earlier generation
    SELECT FROM job_steps s WHERE s.job_id = t.id AND s.claim = t.claim AND s.number = t.number
  )
  ON CONFLICT DO NOTHING -- in this one
  RETURNING job_id, claim, number
)
UPDATE files f
SET status = 'ready', created_at = now(), expires_at = 'infinity', job_id = made.job_id,
    made_by = made.job_id
FROM unnest($5::uuid[], $6::uuid[], $7::bigint[], $8::integer[]) AS made(id, job_id, claim, number)
JOIN added USING (job_id, claim, number)
WHERE f.id = made.id AND f.status = 'uploading';
