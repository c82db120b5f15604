-- name: find_hashes
-- Returns the SHA-256 of those of the :files that Charonia has hashed itself.
SELECT id, sha256
FROM files
WHERE id = ANY(:files::uuid[]) AND sha256 IS NOT NULL AND writable_until IS NULL;
