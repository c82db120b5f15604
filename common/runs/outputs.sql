-- name: find_file
-- Returns the size and the SHA-256 of a file ($1).
SELECT size, sha256 FROM files WHERE id = $1;
