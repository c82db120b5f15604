-- compatible with: 1
-- migrate: no transaction

-- The jobs of a run's steps: to read the outputs of a step, and to cancel what has not ended.
SET lock_timeout = '10min';
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run;
CREATE INDEX CONCURRENTLY jobs_of_run ON live_jobs (parent, step, step_index) WHERE parent IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run_1;
CREATE INDEX CONCURRENTLY jobs_of_run_1 ON jobs_1 (parent, step, step_index) WHERE parent IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run_2;
CREATE INDEX CONCURRENTLY jobs_of_run_2 ON jobs_2 (parent, step, step_index) WHERE parent IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run_3;
CREATE INDEX CONCURRENTLY jobs_of_run_3 ON jobs_3 (parent, step, step_index) WHERE parent IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run_4;
CREATE INDEX CONCURRENTLY jobs_of_run_4 ON jobs_4 (parent, step, step_index) WHERE parent IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run_5;
CREATE INDEX CONCURRENTLY jobs_of_run_5 ON jobs_5 (parent, step, step_index) WHERE parent IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run_6;
CREATE INDEX CONCURRENTLY jobs_of_run_6 ON jobs_6 (parent, step, step_index) WHERE parent IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run_7;
CREATE INDEX CONCURRENTLY jobs_of_run_7 ON jobs_7 (parent, step, step_index) WHERE parent IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_run_8;
CREATE INDEX CONCURRENTLY jobs_of_run_8 ON jobs_8 (parent, step, step_index) WHERE parent IS NOT NULL;
