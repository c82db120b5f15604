-- name: set_generations
-- Generations of history as after weeks: of the seven that have rows, the last is the current one.
UPDATE generations
SET began_at = CASE WHEN number <= 7 THEN now() END, ended_at = CASE WHEN number <= 6 THEN now() END;

-- name: fill_queued
-- Jobs number $1 to $2 of a tenant ($3) that wait for their time, which is tomorrow.
WITH new AS MATERIALIZED (
  SELECT
    (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000803' || lpad(to_hex(number), 13, '0'))::uuid
      AS job_id
  FROM generate_series($1::bigint, $2::bigint) number
)
INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, run_at, scheduled_at, timeout, initial_delay,
                  max_delay, traceparent, tensors)
SELECT job_id, $3::uuid, 'echo', 'normal', 'queued', 3, now() + interval '1 day', now() + interval '1 day', 600, 1, 300, '',
       '\x00000000'
FROM new;

-- name: count_faults
-- What should be none of, where nothing failed: jobs that have not succeeded, further attempts at jobs, further events that
-- end a job, and deliveries that were not the first attempt's; in this order.
SELECT
  (SELECT count(*) FROM jobs WHERE status <> 'succeeded'),
  (SELECT count(*) - count(DISTINCT job_id) FROM ended_attempts),
  (SELECT count(*) - count(DISTINCT job_id) FROM events WHERE job_id IS NOT NULL AND type <> 'job.started'),
  (SELECT count(*) FROM deliveries WHERE status <> 'succeeded' OR attempt <> 1);

-- name: count_succeeded
-- Jobs of the model `slow`, on whichever version, that succeeded.
SELECT count(*) FROM jobs WHERE model = 'slow' AND status = 'succeeded';

-- name: count_queued
-- Jobs of all tenants that are queued.
SELECT count(*) FROM jobs WHERE status = 'queued';

-- name: read_counters
-- What the server has counted so far, by name: rows written to each table, commits, and the write-ahead log. One sync of the
-- log may serve several commits; whole pages are those that were logged in full, because they were new to a checkpoint.
SELECT json_object_agg(name, value)
FROM (
  SELECT 'rows/' || relname || '.' || kind AS name, value
  FROM pg_stat_user_tables, LATERAL (
    VALUES ('inserted', n_tup_ins), ('updated', n_tup_upd), ('deleted', n_tup_del)
  ) AS kinds (kind, value)
  UNION ALL
  SELECT 'commits', xact_commit FROM pg_stat_database WHERE datname = current_database()
  UNION ALL
  SELECT name, value
  FROM pg_stat_wal, LATERAL (
    VALUES ('wal.records', wal_records::numeric), ('wal.bytes', wal_bytes), ('wal.pages', wal_fpi), ('wal.syncs', wal_sync)
  ) AS kinds (name, value)
) counters;

-- name: list_statements
-- The database, text, calls, and milliseconds of planning and execution of each statement so far, without our own.
SELECT json_agg(json_build_array(datname, query, calls, total_plan_time + total_exec_time))
FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
WHERE query NOT LIKE '-- read_counters%';

-- name: list_sessions
-- The other sessions of clients: their states, and for how many seconds.
SELECT coalesce(
  json_agg(json_build_array(coalesce(state, ''), extract(epoch FROM clock_timestamp() - state_change))), '[]'
)
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid();

-- name: fill_claimable
-- Jobs number $1 to $2 of these tenants ($3) in turn, for a model ($4) that no Triton serves. They can be claimed.
WITH new AS MATERIALIZED (
  SELECT
    ('01900000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid AS job_id,
    ($3::uuid[])[1 + number % cardinality($3::uuid[])] AS tenant_id
  FROM generate_series($1::bigint, $2::bigint) number
)
INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay, traceparent,
                  tensors)
SELECT job_id, tenant_id, $4::text, 'normal', 'queued', 3, 600, 1, 300, '', '\x00000000'
FROM new;

-- name: end_oldest
-- Ends the oldest jobs of a model ($1): all but $2 of those that have not ended.
WITH open AS (
  SELECT id FROM live_jobs WHERE model = $1 ORDER BY id DESC OFFSET $2
)
UPDATE jobs j
SET status = 'succeeded', finished_at = now(), generation = current_generation(), lease_until = NULL, session = NULL
FROM open
WHERE j.id = open.id AND j.generation = 0;

-- name: measure_tables
-- Megabytes of each table of 1 MB or more with its indexes and large values; all generations together.
SELECT json_object_agg(name, megabytes)
FROM (
  SELECT regexp_replace(relname, '_[1-8]$', '') AS name, sum(pg_total_relation_size(oid)) / 1e6 AS megabytes
  FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
  GROUP BY 1
) tables
WHERE megabytes >= 1;
