-- compatible with: 1
-- migrate: no transaction
--
-- The jobs that wait for a twin, by key, oldest first.
SET lock_timeout = '60s';
DROP INDEX CONCURRENTLY IF EXISTS jobs_joined;
CREATE INDEX CONCURRENTLY jobs_joined ON live_jobs (tenant_id, reuse_key, id)
  WHERE reuse_key IS NOT NULL AND scheduled_at = 'infinity';
