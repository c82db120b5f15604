-- name: find_allowed_locations
-- Finds those of the locations (buckets $2, keys $3) that a tenant ($1) may read, or write ($4).
SELECT wanted.bucket, wanted.key
FROM unnest($2::text[], $3::text[]) AS wanted(bucket, key)
WHERE EXISTS (
  SELECT
  FROM allowed_locations a
  WHERE a.tenant_id = $1 AND a.bucket = wanted.bucket AND starts_with(wanted.key, a.prefix)
    AND CASE WHEN $4 THEN a.can_write ELSE a.can_read END
);
