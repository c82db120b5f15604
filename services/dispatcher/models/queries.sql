-- name: save_models
-- Saves the models of one dispatcher ($17) with its session ($18), and that it lives. It does not add a version that is
-- neither ready nor in Triton's repository ($16), because it may have been retired.
WITH seen AS (
  INSERT INTO dispatchers (worker) VALUES ($17) ON CONFLICT (worker) DO UPDATE SET seen_at = now()
)
INSERT INTO served_models AS served
  (name, version, ready, decoupled, max_batch_size, instances, slots, inputs, outputs, queue_ms, compute_ms, limited_by,
   settings, load_id, loaded_at, in_repository, worker, session)
SELECT t.*, $17, $18
FROM unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $5::integer[], $6::integer[], $7::integer[],
            $8::jsonb[], $9::jsonb[], $10::double precision[], $11::double precision[],
            $12::text[], $13::jsonb[], $14::uuid[], $15::timestamptz[],
            $16::boolean[])
  AS t(name, version, ready, decoupled, max_batch_size, instances, slots, inputs, outputs, queue_ms, compute_ms,
       limited_by, settings, load_id, loaded_at, in_repository)
WHERE t.ready OR t.in_repository
   OR EXISTS (SELECT FROM served_models s WHERE s.name = t.name AND s.version = t.version AND s.worker = $17)
ORDER BY t.name, t.version
ON CONFLICT (name, version, worker) DO UPDATE
SET session = excluded.session,
    ready = excluded.ready,
    decoupled = excluded.decoupled,
    max_batch_size = excluded.max_batch_size,
    instances = excluded.instances,
    slots = excluded.slots,
    inputs = excluded.inputs,
    outputs = excluded.outputs,
    queue_ms = excluded.queue_ms,
    compute_ms = excluded.compute_ms,
    limited_by = excluded.limited_by,
    settings = excluded.settings,
    described_at = CASE
      WHEN (served.decoupled, served.max_batch_size, served.inputs, served.outputs, served.settings)
        = (excluded.decoupled, excluded.max_batch_size, excluded.inputs, excluded.outputs, excluded.settings)
      THEN served.described_at
      ELSE now()
    END,
    missing_since = CASE WHEN NOT excluded.ready THEN served.missing_since END,
    load_id = excluded.load_id,
    loaded_at = excluded.loaded_at,
    in_repository = excluded.in_repository,
    updated_at = now();

-- name: save_unloaded
-- Replaces the reasons why models do not run that one dispatcher ($4) knows. Removes those of lost dispatchers.
WITH removed AS (
  DELETE FROM unloaded_models
  WHERE (worker = $4 AND (name, version) NOT IN (SELECT * FROM unnest($1::text[], $2::text[])))
     OR updated_at <= now() - interval '1 hour'
)
INSERT INTO unloaded_models (name, version, reason, worker)
SELECT t.name, t.version, t.reason, $4
FROM unnest($1::text[], $2::text[], $3::text[]) AS t(name, version, reason)
ON CONFLICT (name, version, worker) DO UPDATE SET reason = excluded.reason, updated_at = now();

-- name: remove_lost
-- Removes the rows of lost dispatchers for versions that another dispatcher can run.
DELETE FROM served_models lost
WHERE updated_at <= now() - interval '30 seconds'
  AND EXISTS (SELECT FROM models m WHERE m.name = lost.name AND m.version = lost.version AND m.ready);

-- name: forget_dispatchers
-- Removes dispatchers that nobody has seen for a day, and that no model names.
DELETE FROM dispatchers d
WHERE seen_at < now() - interval '1 day' AND NOT EXISTS (SELECT FROM served_models s WHERE s.worker = d.worker);

-- name: find_known
-- Returns the newest declaration of each version of these models ($1), whichever dispatcher saved it.
SELECT DISTINCT ON (name, version)
  name, version, decoupled, max_batch_size, instances, inputs, outputs, settings
FROM served_models
WHERE name = ANY($1::text[])
ORDER BY name, version, described_at DESC, worker;

-- name: retire_models
-- Removes versions that have been missing for $1 seconds, and notes which versions are missing from now on. Returns
-- the removed ones. A version that Triton may load is not missing. Only a dispatcher whose Triton answers runs this, so
-- that an outage of all servers retires nothing.
WITH missing AS (
  UPDATE served_models served
  SET missing_since = CASE WHEN NOT (m.ready OR m.in_repository) THEN now() END
  FROM models m
  WHERE m.name = served.name AND m.version = served.version
    AND (m.ready OR m.in_repository) = (served.missing_since IS NOT NULL)
), retired AS (
  DELETE FROM served_models served
  USING models m
  WHERE m.name = served.name AND m.version = served.version AND NOT m.ready AND NOT m.in_repository
    AND served.missing_since < now() - make_interval(secs => $1::double precision)
  RETURNING served.name, served.version
)
SELECT DISTINCT name, version FROM retired;

-- name: list_loads
-- Returns the load of each version in a Triton ($1). `held`: another live dispatcher than $2 says that it runs, or
-- has saved it and has not yet said what it serves. `is_old`: nobody has saved it for an hour, though it may run.
SELECT l.name, l.version, l.load_id, l.loaded_at, l.executions, l.seen_at < now() - interval '1 hour' AS is_old,
       EXISTS (
         SELECT FROM served_now s
         WHERE s.name = l.name AND s.version = l.version AND s.load_id = l.load_id
           AND s.worker <> $2 AND s.ready AND s.is_alive
       ) OR EXISTS (
         SELECT FROM dispatchers_now d
         WHERE d.worker = l.saved_by AND d.worker <> $2 AND d.is_alive
           AND NOT EXISTS (
             SELECT FROM served_models s WHERE s.worker = d.worker AND s.name = l.name AND s.version = l.version
           )
       ) AS held
FROM model_loads l
WHERE l.server = $1;

-- name: save_loads
-- Saves the loads ($4) of versions ($2, $3) in a Triton ($1), with their successful requests ($6): in place of the loads
-- that the rows have ($5), or where there is no row. Returns what was saved: a row that changed meanwhile stays. Says that
-- the dispatcher that saves them ($7) lives.
WITH seen AS (
  INSERT INTO dispatchers (worker) VALUES ($7) ON CONFLICT (worker) DO UPDATE SET seen_at = now()
), given AS (
  SELECT *
  FROM unnest($2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::bigint[]) AS t(name, version, load_id, before, executions)
), locked AS (
  SELECT l.name, l.version
  FROM model_loads l
  JOIN given ON given.name = l.name AND given.version = l.version AND given.before = l.load_id
  WHERE l.server = $1
  ORDER BY l.name, l.version
  FOR UPDATE OF l
), replaced AS (
  UPDATE model_loads l
  SET load_id = given.load_id,
      executions = given.executions,
      loaded_at = CASE WHEN l.load_id = given.load_id THEN l.loaded_at ELSE now() END,
      saved_by = $7,
      seen_at = now()
  FROM locked JOIN given USING (name, version)
  WHERE l.server = $1 AND l.name = given.name AND l.version = given.version
  RETURNING l.name, l.version, l.load_id, l.loaded_at
), added AS (
  INSERT INTO model_loads (server, name, version, load_id, executions, saved_by)
  SELECT $1, name, version, load_id, executions, $7 FROM given WHERE before IS NULL ORDER BY name, version
  ON CONFLICT DO NOTHING
  RETURNING name, version, load_id, loaded_at
)
SELECT * FROM replaced UNION ALL SELECT * FROM added;

-- name: forget_loads
-- Removes loads that no dispatcher has saved for a day.
DELETE FROM model_loads WHERE seen_at < now() - interval '1 day';
