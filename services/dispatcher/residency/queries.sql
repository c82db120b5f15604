-- name: measure_demand
-- Counts what waits for each of these models ($1), up to $2 jobs of each priority and of up to $3 tenants, and what runs
-- at the dispatchers of a server ($4). Jobs of paused models and tenants do not count. Suspected poison jobs count once
-- they are due: they become claimable only when their model is ready. `deadline` is when the first job expires.
WITH RECURSIVE queues AS (
  (
    SELECT model, priority
    FROM live_jobs
    WHERE status = 'queued' AND scheduled_at IS NULL AND model >= ''
    ORDER BY model, priority
    LIMIT 1
  )
  UNION ALL
  SELECT next.model, next.priority
  FROM queues
  CROSS JOIN LATERAL (
    SELECT model, priority
    FROM live_jobs
    WHERE status = 'queued' AND scheduled_at IS NULL AND (model, priority) > (queues.model, queues.priority)
    ORDER BY model, priority
    LIMIT 1
  ) next
), waiting AS (
  SELECT q.model, q.priority, jobs.*
  FROM queues q
  CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(job.run_at) AS since, min(job.expires_at) FILTER (WHERE job.started_at IS NULL) AS deadline
    FROM (
      SELECT first.*
      FROM waiting_tenants(
        q.model, q.priority, '00000000-0000-0000-0000-000000000000', $3,
        ARRAY(SELECT id FROM tenants WHERE paused_at IS NOT NULL)
      ) tenant
      CROSS JOIN LATERAL (
        SELECT run_at, expires_at, started_at
        FROM live_jobs
        WHERE model = q.model AND priority = q.priority AND tenant_id >= tenant AND tenant_id <= tenant
          AND status = 'queued' AND scheduled_at IS NULL
          AND (expires_at IS NULL OR expires_at > now() OR started_at IS NOT NULL)
        ORDER BY tenant_id, id
        LIMIT $2
      ) first
      LIMIT $2
    ) job
  ) jobs
  WHERE q.model = ANY($1::text[])
  UNION ALL
  SELECT model, priority, count(*), min(scheduled_at), NULL
  FROM (
    SELECT model, priority, tenant_id, scheduled_at
    FROM live_jobs
    WHERE probation IS NOT NULL AND finished_at IS NULL AND scheduled_at <= now()
    ORDER BY scheduled_at
    LIMIT $2
  ) suspect
  WHERE model = ANY($1::text[]) AND tenant_id NOT IN (SELECT id FROM tenants WHERE paused_at IS NOT NULL)
  GROUP BY model, priority
), running AS (
  SELECT model, count(*) AS jobs
  FROM live_jobs
  WHERE lease_until > '-infinity' AND model = ANY($1::text[])
    AND worker IN (SELECT worker FROM dispatchers WHERE server = $4)
  GROUP BY model
)
SELECT
  model, coalesce(max(running.jobs), 0) AS running, coalesce(sum(waiting.jobs), 0)::bigint AS waiting,
  extract(epoch FROM min(since))::double precision AS since,
  extract(epoch FROM min(deadline))::double precision AS deadline,
  (array_agg(priority ORDER BY array_position(ARRAY['high', 'normal', 'low'], priority)))[1] AS priority
FROM (SELECT * FROM waiting WHERE jobs > 0 AND model NOT IN (SELECT model FROM model_limits WHERE paused_at IS NOT NULL)) waiting
FULL JOIN running USING (model)
GROUP BY model;

-- name: add_role
-- Adds the role ($1) of the dispatchers of a Triton.
INSERT INTO leader_leases (role) VALUES ($1) ON CONFLICT DO NOTHING;

-- name: note_server
-- Records the server ($2) of a dispatcher ($1), the patterns of its models ($3), and the bytes for models there ($4).
INSERT INTO dispatchers (worker, server, models, model_memory) VALUES ($1, $2, $3, $4)
ON CONFLICT (worker) DO UPDATE
SET server = excluded.server, models = excluded.models, model_memory = excluded.model_memory, seen_at = now();

-- name: forget_server
-- Forgets the server of a dispatcher ($1) that leaves its models as they are, and had another setting before.
UPDATE dispatchers SET server = NULL, models = NULL, model_memory = NULL WHERE worker = $1 AND server IS NOT NULL;

-- name: list_patterns
-- Returns the patterns of the models that the live dispatchers of a server ($1) run.
SELECT DISTINCT unnest(models) AS pattern FROM dispatchers_now WHERE server = $1 AND is_alive;

-- name: list_models
-- Returns what is known of models ($2) of a server ($1): the row of their residency if there is one, and what
-- dispatchers save of them. `slots`: jobs that Triton runs at once; a dispatcher has twice as many. `serving`: a live
-- dispatcher of the server starts jobs. `elsewhere`: other servers that have the model ready, or load it, as long as a
-- dispatcher leads there and reaches them. `reloads`: a dispatcher loads it again after a quarantine. Times are in seconds
-- since 1970.
SELECT
  t.name, extract(epoch FROM now())::double precision AS now,
  r.phase, extract(epoch FROM r.changed_at)::double precision AS changed_at, r.memory, r.measured, r.assumed, r.keep,
  r.load_seconds, extract(epoch FROM r.loaded_at)::double precision AS loaded_at,
  extract(epoch FROM r.used_at)::double precision AS used_at, r.arrivals, r.failures,
  extract(epoch FROM r.next_try_at)::double precision AS next_try_at, r.reason, r.for_model, r.place,
  extract(epoch FROM r.expected_at)::double precision AS expected_at, r.why,
  extract(epoch FROM r.left_at)::double precision AS left_at, r.lost,
  served.settings, served.compute_ms, served.slots, coalesce(served.serving, false) AS serving,
  coalesce(served.elsewhere, 0) + (
    SELECT count(*)
    FROM residencies o
    JOIN leader_leases l ON l.role = 'residency ' || o.server AND l.is_fit AND l.expires_at > now()
    WHERE o.name = t.name AND o.server <> $1 AND o.phase = 'loading'
  ) AS elsewhere,
  EXISTS (SELECT FROM model_limits p WHERE p.model = t.name AND p.paused_at IS NOT NULL) AS paused,
  EXISTS (SELECT FROM quarantines q WHERE q.server = $1 AND q.model = t.name AND q.reload_until > now()) AS reloads
FROM unnest($2::text[]) AS t(name)
LEFT JOIN residencies r ON r.server = $1 AND r.name = t.name
LEFT JOIN (
  SELECT
    name, avg(compute_ms) AS compute_ms, max(least(slots, instances * greatest(max_batch_size, 1))) AS slots,
    (array_agg(settings ORDER BY described_at DESC, worker))[1] AS settings,
    bool_or(ready AND is_alive AND server = $1) AS serving,
    count(DISTINCT coalesce(server, worker)) FILTER (WHERE ready AND is_alive AND server IS DISTINCT FROM $1) AS elsewhere
  FROM served_now
  WHERE name = ANY($2::text[])
  GROUP BY name
) served ON served.name = t.name;

-- name: save_residencies
-- Saves rows of a server ($1), if a process ($3) leads its role ($2). Returns whether it does. The lock keeps another one
-- from leading before this is committed.
WITH led AS MATERIALIZED (
  SELECT role FROM leader_leases WHERE role = $2 AND holder = $3 AND expires_at > now() FOR SHARE
), saved AS (
  INSERT INTO residencies AS r
    (server, name, phase, changed_at, memory, measured, assumed, keep, load_seconds, loaded_at, used_at, arrivals,
     failures, next_try_at, reason, for_model, place, expected_at, why, left_at, lost)
  SELECT
    $1, t.name, t.phase, to_timestamp(t.changed_at), t.memory, t.measured, t.assumed, t.keep, t.load_seconds,
    to_timestamp(t.loaded_at), to_timestamp(t.used_at), t.arrivals, t.failures, to_timestamp(t.next_try_at), t.reason,
    t.for_model, t.place, to_timestamp(t.expected_at), t.why, to_timestamp(t.left_at), t.lost
  FROM led
  CROSS JOIN unnest(
    $4::text[], $5::text[], $6::double precision[], $7::bigint[], $8::bigint[], $9::bigint[], $10::boolean[],
    $11::double precision[], $12::double precision[], $13::double precision[], $14::double precision[], $15::integer[],
    $16::double precision[], $17::text[], $18::text[], $19::integer[], $20::double precision[], $21::text[],
    $22::double precision[], $23::bigint[]
  ) AS t(name, phase, changed_at, memory, measured, assumed, keep, load_seconds, loaded_at, used_at, arrivals, failures,
         next_try_at, reason, for_model, place, expected_at, why, left_at, lost)
  ORDER BY t.name
  ON CONFLICT (server, name) DO UPDATE
  SET phase = excluded.phase, changed_at = excluded.changed_at, memory = excluded.memory, measured = excluded.measured,
      assumed = excluded.assumed, keep = excluded.keep, load_seconds = excluded.load_seconds,
      loaded_at = excluded.loaded_at, used_at = excluded.used_at, arrivals = excluded.arrivals,
      failures = excluded.failures, next_try_at = excluded.next_try_at, reason = excluded.reason,
      for_model = excluded.for_model, place = excluded.place, expected_at = excluded.expected_at, why = excluded.why,
      left_at = excluded.left_at, lost = excluded.lost, updated_at = now()
)
SELECT EXISTS (SELECT FROM led) AS leads;

-- name: remove_residencies
-- Removes the rows of a server ($1) whose models are not among those ($2) that its dispatchers may load or that it has
-- loaded, if a process ($4) leads its role ($3). Removes what servers left that no dispatcher has had for a day.
WITH forgotten AS (
  DELETE FROM leader_leases l
  WHERE l.role LIKE 'residency %' AND l.role <> $3
    AND NOT EXISTS (SELECT FROM dispatchers d WHERE 'residency ' || d.server = l.role)
)
DELETE FROM residencies r
WHERE r.server = $1 AND r.name <> ALL($2::text[])
    AND EXISTS (SELECT FROM leader_leases WHERE role = $3 AND holder = $4 AND expires_at > now())
  OR NOT EXISTS (SELECT FROM dispatchers d WHERE d.server = r.server);

-- name: list_phases
-- Returns the phases of the models of a server ($1) that are not absent.
SELECT name, phase FROM residencies WHERE server = $1 AND phase <> 'absent';

-- name: note_drains
-- Records that a dispatcher ($1) starts no more jobs of these models ($2).
UPDATE served_models SET ready = false, updated_at = now() WHERE worker = $1 AND name = ANY($2::text[]) AND ready;
