-- name: save_models
-- Saves the catalogue as one dispatcher sees it. It does not add a version that is not ready, because another
-- dispatcher may have retired it.
INSERT INTO models (name, version, ready, decoupled, max_batch_size, instances, inputs, outputs, updated_at)
SELECT t.*, now()
FROM unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $5::integer[], $6::integer[], $7::jsonb[],
            $8::jsonb[]) AS t(name, version, ready, decoupled, max_batch_size, instances, inputs, outputs)
WHERE t.ready OR EXISTS (SELECT FROM models m WHERE m.name = t.name AND m.version = t.version)
ORDER BY t.name, t.version
ON CONFLICT (name, version) DO UPDATE
SET ready = excluded.ready,
    decoupled = excluded.decoupled,
    max_batch_size = excluded.max_batch_size,
    instances = excluded.instances,
    inputs = excluded.inputs,
    outputs = excluded.outputs,
    missing_since = CASE WHEN NOT excluded.ready THEN models.missing_since END,
    updated_at = now();

-- name: retire_models
-- Removes versions that have been missing for $1 seconds, and notes which versions are missing from now on. Returns
-- the removed ones. Only a dispatcher whose Triton answers runs this, so that an outage of all servers retires
-- nothing.
WITH missing AS (
  UPDATE models
  SET missing_since = now()
  WHERE missing_since IS NULL AND NOT (ready AND updated_at > now() - interval '30 seconds')
)
DELETE FROM models
WHERE missing_since < now() - make_interval(secs => $1::double precision)
RETURNING name, version;
