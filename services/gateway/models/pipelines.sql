-- name: find_pipelines
-- Returns a tenant's ($1) pipelines of these names ($2), each by its newest version or that one ($3), unless it was deleted.
-- `asked` is the version in the request.
SELECT wanted.version AS asked, found.*
FROM unnest($2::text[], $3::integer[]) AS wanted (name, version)
CROSS JOIN LATERAL (
  SELECT name, version, definition, inputs, outputs, created_at
  FROM pipelines p
  WHERE p.tenant_id = $1 AND p.name = wanted.name AND p.deleted_at IS NULL
    AND (wanted.version IS NULL OR p.version = wanted.version)
  ORDER BY p.version DESC
  LIMIT 1
) found;

-- name: list_versions
-- Returns the versions of a tenant's ($1) pipeline ($2) that were not deleted, newest first.
SELECT version FROM pipelines WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL ORDER BY version DESC;

-- name: list_pipelines
-- Returns the newest versions of a tenant's ($1) pipelines after a name ($2), $3 at most.
SELECT DISTINCT ON (name) name, version, definition, inputs, outputs, created_at
FROM pipelines
WHERE tenant_id = $1 AND name > $2 AND deleted_at IS NULL
ORDER BY name, version DESC
LIMIT $3;
