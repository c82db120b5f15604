-- name: find_known_files
-- Returns those of the files ($1) that have a row, whatever their state.
SELECT id, tenant_id FROM files WHERE id = ANY ($1::uuid[]);
