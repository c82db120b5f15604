-- name: list_models
-- All model versions, with the limits of their models. `reason` says why a version does not run, if a live dispatcher
-- knows. No Triton has ever served a version that is not `declared`. Where the queue decides what Triton holds, the last
-- load may have failed.
SELECT name, version, coalesce(m.ready, false) AS ready, m.name IS NOT NULL AS declared,
       coalesce(m.decoupled, false) AS decoupled, coalesce(m.max_batch_size, 0) AS max_batch_size,
       coalesce(m.inputs, '[]') AS inputs, coalesce(m.outputs, '[]') AS outputs,
       coalesce(m.settings, '{}') AS settings, m.loads, m.loaded_at,
       CASE WHEN m.ready IS NOT TRUE THEN coalesce(failed.reason, u.reason) END AS reason,
       l.max_running, l.max_running_per_tenant, l.paused_at IS NOT NULL AS paused
FROM models m
FULL JOIN (
  SELECT DISTINCT ON (name, version) name, version, reason
  FROM unloaded_now
  ORDER BY name, version, updated_at DESC
) u USING (name, version)
LEFT JOIN (
  SELECT r.name, min(r.reason) AS reason
  FROM residencies r
  WHERE r.reason IS NOT NULL AND r.server IN (SELECT server FROM dispatchers_now WHERE is_alive)
  GROUP BY r.name
) failed USING (name)
LEFT JOIN model_limits l ON l.model = name
ORDER BY name, version;

-- name: count_queued
-- Counts waiting jobs by model and priority.
SELECT model, priority, count(*) AS jobs
FROM live_jobs
WHERE finished_at IS NULL AND lease_until IS NULL
GROUP BY model, priority;

-- name: list_workloads
-- All models with what their dispatchers can do now, as in the view served_now, and what Triton reports of recent requests.
-- `limited_by` says why a live dispatcher runs fewer jobs at a time than it has slots.
-- `reason` says why the newest version does not run, if a live dispatcher knows.
--
-- A live dispatcher counts as one of the model, without slots, if it knows why the model does not run. So does one that
-- knows no model: it started while Triton was away.
SELECT s.name AS model,
       bool_or(s.is_alive)
         OR s.name IN (SELECT name FROM unloaded_now)
         OR EXISTS (SELECT FROM dispatchers_now d
                    WHERE d.is_alive AND NOT EXISTS (SELECT FROM served_now n WHERE n.worker = d.worker))
         AS has_dispatcher,
       coalesce(sum(s.slots), 0) AS slots,
       max(s.limited_by) AS limited_by,
       max(s.seen_at) AS seen_at, avg(s.queue_ms) AS queue_ms, avg(s.compute_ms) AS compute_ms,
       l.max_running, l.max_running_per_tenant, l.paused_at IS NOT NULL AS paused,
       (
         SELECT u.reason
         FROM unloaded_now u
         WHERE u.name = s.name
         ORDER BY length(u.version) DESC, u.version DESC, u.updated_at DESC -- versions are numbers
         LIMIT 1
       ) AS reason
FROM (
  SELECT name, worker, seen_at, bool_or(is_alive) AS is_alive,
         max(limited_by) FILTER (WHERE is_alive AND ready) AS limited_by,
         CASE WHEN bool_or(is_alive AND ready) THEN max(slots) END AS slots,
         avg(queue_ms) FILTER (WHERE is_alive AND ready) AS queue_ms,
         avg(compute_ms) FILTER (WHERE is_alive AND ready) AS compute_ms
  FROM served_now
  GROUP BY name, worker, seen_at
) s
LEFT JOIN model_limits l ON l.model = s.name
GROUP BY s.name, l.model;

-- name: list_residencies
-- Returns what is known of each model in each Triton whose memory is managed by a live dispatcher, and its memory for models.
-- `is_led`: a dispatcher plans the loads there, and reaches the Triton. Otherwise only what dispatchers run is known to be
-- loaded, and there is no plan.
SELECT r.server, r.name AS model, l.role IS NOT NULL AS is_led,
       CASE
         WHEN l.role IS NOT NULL
           OR EXISTS (SELECT FROM served_now s WHERE s.name = r.name AND s.server = r.server AND s.ready AND s.is_alive)
         THEN r.phase
         ELSE 'absent'
       END AS state,
       r.memory, r.lost, r.load_seconds, r.loaded_at, r.reason, d.budget,
       CASE WHEN l.role IS NOT NULL THEN r.place END AS place,
       CASE WHEN l.role IS NOT NULL THEN r.expected_at END AS expected_at,
       CASE WHEN l.role IS NOT NULL THEN r.why END AS why
FROM residencies r
JOIN (
  SELECT server, max(model_memory) AS budget
  FROM dispatchers_now
  WHERE is_alive AND model_memory IS NOT NULL
  GROUP BY server
) d ON d.server = r.server
LEFT JOIN leader_leases l ON l.role = 'residency ' || r.server AND l.is_fit AND l.expires_at > now();

-- name: count_running
-- Counts the running jobs by model and tenant. There are no more than the dispatchers have slots.
SELECT model, tenant_id, count(*) AS jobs FROM live_jobs WHERE lease_until > '-infinity' GROUP BY model, tenant_id;

-- name: list_paused_tenants
-- Lists the paused tenants, with the database's time, and the models of dispatchers where a suspected poison job runs alone.
SELECT
  ARRAY(SELECT id FROM tenants WHERE paused_at IS NOT NULL) AS tenants,
  ARRAY(
    SELECT other.name
    FROM live_jobs j
    JOIN served_now other ON other.worker = j.worker
    WHERE j.probation IS NOT NULL AND j.finished_at IS NULL AND j.scheduled_at IS NULL AND j.model >= '' -- fits an index
      AND j.interruptions > 3 AND j.lease_until IS NOT NULL
  ) AS held_models,
  now() AS now;

-- name: measure_recent
-- Returns how long the latest $3 jobs of a tenant ($1) and a model ($2) waited and ran, in milliseconds, if they
-- succeeded and were submitted within the last hour: the medians, and what 95 % of them did not exceed.
SELECT
  count(*) AS jobs,
  percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY queue_ms) AS queue_ms,
  percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY inference_ms) AS inference_ms
FROM (
  SELECT greatest(0, extract(epoch FROM started_at - greatest(created_at, run_at)) * 1000)::double precision
           AS queue_ms,
         inference_ms
  FROM jobs
  WHERE generation > 0 AND tenant_id = $1 AND model BETWEEN $2 AND $2 AND status = 'succeeded'
    AND created_at > now() - interval '1 hour' AND parent IS NULL
  ORDER BY model DESC, created_at DESC, id DESC -- so that the planner uses the index of the model
  LIMIT $3
) recent;
