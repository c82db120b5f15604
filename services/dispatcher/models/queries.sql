-- name: save_models
-- Saves the models of one dispatcher ($14) with its session ($15), and that it lives. It does not add a version that is
-- not ready, because it may have been retired.
WITH seen AS (
  INSERT INTO dispatchers (worker) VALUES ($14) ON CONFLICT (worker) DO UPDATE SET seen_at = now()
)
INSERT INTO served_models AS served
  (name, version, ready, decoupled, max_batch_size, instances, slots, inputs, outputs, queue_ms, compute_ms, limited_by,
   settings, worker, session)
SELECT t.*, $14, $15
FROM unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $5::integer[], $6::integer[], $7::integer[],
            $8::jsonb[], $9::jsonb[], $10::double precision[], $11::double precision[],
            $12::text[], $13::jsonb[])
  AS t(name, version, ready, decoupled, max_batch_size, instances, slots, inputs, outputs, queue_ms, compute_ms,
       limited_by, settings)
WHERE t.ready OR EXISTS (SELECT FROM served_models s WHERE s.name = t.name AND s.version = t.version AND s.worker = $14)
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

-- name: retire_models
-- Removes versions that have been missing for $1 seconds, and notes which versions are missing from now on. Returns
-- the removed ones. Only a dispatcher whose Triton answers runs this, so that an outage of all servers retires
-- nothing.
WITH missing AS (
  UPDATE served_models served
  SET missing_since = CASE WHEN NOT m.ready THEN now() END
  FROM models m
  WHERE m.name = served.name AND m.version = served.version AND m.ready = (served.missing_since IS NOT NULL)
), retired AS (
  DELETE FROM served_models served
  USING models m
  WHERE m.name = served.name AND m.version = served.version AND NOT m.ready
    AND served.missing_since < now() - make_interval(secs => $1::double precision)
  RETURNING served.name, served.version
)
SELECT DISTINCT name, version FROM retired;
