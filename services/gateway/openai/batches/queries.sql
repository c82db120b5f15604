-- name: add_unread_batch
-- Adds a batch ($1) of a tenant ($2) for a request ($5). Its items will be the $3 lines of a file ($6), from the beginning, or
-- none of them if it failed ($7). What is no job after $8 seconds expires.
INSERT INTO batches (id, tenant_id, total, accepted, traceparent, request, input_file, read_to, expires_at)
VALUES ($1, $2, $3, 0, $4, $5, $6, CASE WHEN NOT $7 THEN 0 END, now() + make_interval(secs => $8));

-- name: keep_input_file
-- Keeps a tenant's ($2) file ($1) for $3 more seconds, or longer if it is anyway. Returns nothing if it is gone.
UPDATE files
SET expires_at = greatest(expires_at, now() + make_interval(secs => $3))
WHERE id = $1 AND tenant_id = $2 AND status = 'ready' AND job_id IS NULL AND expires_at > now()
RETURNING id;

-- name: count_unread_batches
-- Counts the batches of a tenant ($1) whose files are being read.
SELECT count(*) AS batches FROM batches WHERE tenant_id = $1 AND finished_at IS NULL AND read_to IS NOT NULL;

-- name: find_unread_batches
-- Returns up to $1 batches whose files are being read, with their tenants: the oldest of each tenant first.
SELECT tenant_id, id
FROM batches
WHERE finished_at IS NULL AND read_to IS NOT NULL
ORDER BY row_number() OVER (PARTITION BY tenant_id ORDER BY id), id
LIMIT $1;

-- name: read_unread_batch
-- Returns a batch ($1) whose file is being read, with the index of its next item and the seconds that it has.
SELECT b.id, b.tenant_id, b.input_file, b.read_to, b.request, b.traceparent, b.canceled_at IS NOT NULL AS is_canceled,
  extract(epoch FROM b.expires_at - now())::double precision AS seconds_left,
  coalesce((SELECT max(i.index) + 1 FROM batch_items i WHERE i.batch_id = b.id), 0) AS next_index
FROM batches b
WHERE b.id = $1 AND b.finished_at IS NULL AND b.read_to IS NOT NULL;

-- name: advance_batch
-- Notes that the lines of a batch ($1) from a place ($2) to another ($3) are items now, and that $4 of them are jobs. NULL: they
-- were the last. $5 replaces the request. Returns nothing if another process was faster, or the batch was canceled and jobs
-- were to be added.
UPDATE batches
SET read_to = $3, accepted = accepted + $4, request = coalesce($5, request)
WHERE id = $1 AND read_to = $2 AND finished_at IS NULL AND ($4 = 0 OR canceled_at IS NULL)
RETURNING id;

-- name: find_requested_batch
-- Returns a tenant's ($2) batch ($1) that came as a request, with the number of its items so far.
SELECT b.id, b.total, b.accepted, b.created_at, b.finished_at, b.canceled_at, b.read_to IS NULL AS is_read, b.expires_at,
  b.request, b.input_file,
  coalesce((SELECT max(i.index) + 1 FROM batch_items i WHERE i.batch_id = b.id), 0) AS items
FROM batches b
WHERE b.id = $1 AND b.tenant_id = $2 AND b.request IS NOT NULL;

-- name: list_requested_batches
-- Returns up to $4 of a tenant's ($1) batches that came as requests, before a place ($2, $3), newest first.
SELECT b.id, b.total, b.accepted, b.created_at, b.finished_at, b.canceled_at, b.read_to IS NULL AS is_read, b.expires_at,
  b.request, b.input_file,
  coalesce((SELECT max(i.index) + 1 FROM batch_items i WHERE i.batch_id = b.id), 0) AS items
FROM batches b
WHERE b.tenant_id = $1 AND b.request IS NOT NULL AND (b.created_at, b.id) < ($2, $3)
ORDER BY b.created_at DESC, b.id DESC
LIMIT $4;

-- name: measure_lines
-- Returns the next $3 items of a batch ($1) from an index ($2), each with the bytes that its line takes in the file of errors
-- ($4), or else of outputs. NULL: it has no line there, at least not yet. No output is read for it.
WITH page AS MATERIALIZED (
  SELECT index, job_id, coalesce(octet_length(problem), 0) AS size
  FROM batch_items
  WHERE batch_id = $1 AND index >= $2
  ORDER BY index
  LIMIT $3
)
SELECT page.index,
  CASE
    WHEN $4::boolean AND (page.job_id IS NULL OR j.status IN ('failed', 'canceled', 'expired')) THEN page.size
    WHEN NOT $4 AND j.status = 'succeeded' THEN
      coalesce(octet_length(j.outputs), 0) + coalesce(octet_length(j.request), 0) + j.output_file_bytes
  END AS size
FROM page
LEFT JOIN jobs j ON j.id = page.job_id
ORDER BY page.index;

-- name: read_lines
-- Returns items of a batch ($1) by their indexes ($2), each with its job, and that job's outputs and request unless $4. Leaves
-- out a job that was retried and has grown beyond its size when it was measured ($3). It does not check the tenant: the caller
-- did.
SELECT i.index, i.custom_id, i.problem, j.*, stored.outputs, stored.request
FROM unnest($2::integer[], $3::bigint[]) AS wanted(index, size)
JOIN batch_items i ON i.batch_id = $1 AND i.index = wanted.index
LEFT JOIN job_facts j ON j.id = i.job_id
LEFT JOIN LATERAL (SELECT outputs, request FROM jobs WHERE id = j.id AND NOT $4::boolean) stored ON true
WHERE $4 OR coalesce(j.outputs_size, 0) + coalesce(j.request_size, 0) <= wanted.size
ORDER BY i.index;

-- name: list_batch_files
-- Returns up to $4 of a tenant's ($1) batches before a place ($2, $3), newest first, each with whether it has outputs and errors. Leaves
-- out those without either.
SELECT *
FROM (
  SELECT b.id, b.created_at,
    EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id AND j.status = 'succeeded') AS has_output,
    EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id AND j.status IN ('failed', 'canceled', 'expired'))
      OR b.accepted < coalesce((SELECT max(i.index) + 1 FROM batch_items i WHERE i.batch_id = b.id), 0) AS has_errors
  FROM batches b
  WHERE b.tenant_id = $1 AND b.request IS NOT NULL AND (b.created_at, b.id) < ($2, $3)
) found
WHERE has_output OR has_errors
ORDER BY created_at DESC, id DESC
LIMIT $4;

-- name: list_oldest_batch_files
-- Returns up to $4 of a tenant's ($1) batches after a place ($2, $3), oldest first, each with whether it has outputs and errors. Leaves
-- out those without either.
SELECT *
FROM (
  SELECT b.id, b.created_at,
    EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id AND j.status = 'succeeded') AS has_output,
    EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id AND j.status IN ('failed', 'canceled', 'expired'))
      OR b.accepted < coalesce((SELECT max(i.index) + 1 FROM batch_items i WHERE i.batch_id = b.id), 0) AS has_errors
  FROM batches b
  WHERE b.tenant_id = $1 AND b.request IS NOT NULL AND (b.created_at, b.id) > ($2, $3)
) found
WHERE has_output OR has_errors
ORDER BY created_at, id
LIMIT $4;

-- name: find_batch_files
-- Returns whether a tenant's ($2) batch ($1) has outputs and errors, and its request.
SELECT b.id, b.created_at,
  EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id AND j.status = 'succeeded') AS has_output,
  EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id AND j.status IN ('failed', 'canceled', 'expired'))
    OR b.accepted < coalesce((SELECT max(i.index) + 1 FROM batch_items i WHERE i.batch_id = b.id), 0) AS has_errors,
  b.request
FROM batches b
WHERE b.id = $1 AND b.tenant_id = $2 AND b.request IS NOT NULL;
