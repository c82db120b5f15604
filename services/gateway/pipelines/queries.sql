-- The statements that read pipelines are in services/gateway/models/pipelines.sql: submits and the catalogue need them, too.

-- name: add_pipeline
-- Adds the next version of a tenant's ($1) pipeline ($2) with a definition ($3), its inputs ($4), and the outputs of each step
-- ($5). A definition like that of the newest version, which is not deleted, adds none. Returns the version, or nothing if
-- the tenant has $6 versions, deleted ones included. Two calls at once may want one number: the second one fails with a
-- unique violation, and is tried again.
WITH newest AS (
  SELECT version, definition, created_at, deleted_at
  FROM pipelines
  WHERE tenant_id = $1 AND name = $2
  ORDER BY version DESC
  LIMIT 1
), added AS (
  INSERT INTO pipelines (tenant_id, name, version, definition, inputs, outputs)
  SELECT $1, $2, 1 + coalesce((SELECT version FROM newest), 0), $3, $4, $5
  WHERE NOT EXISTS (SELECT FROM newest WHERE definition = $3::bytea AND deleted_at IS NULL)
    AND (SELECT count(*) FROM pipelines WHERE tenant_id = $1) < $6
  RETURNING version, created_at
)
SELECT version, created_at, true AS added FROM added
UNION ALL
SELECT version, created_at, false FROM newest WHERE definition = $3 AND deleted_at IS NULL;

-- name: delete_pipeline
-- Deletes all versions of a tenant's ($1) pipeline ($2). Runs go on. Returns the versions.
UPDATE pipelines SET deleted_at = now() WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL RETURNING version;
