-- When a client had an ended job's payload erased; it is never run again.
ALTER TABLE jobs
  ADD erased_at timestamptz,
  ADD CONSTRAINT jobs_erased_ended CHECK (erased_at IS NULL OR finished_at IS NOT NULL) NOT VALID; -- all are NULL

-- The job that an operational event tells of: it may quote what a receiver answered, so it is erased with the job.
ALTER TABLE events ADD about_job_id uuid;
CREATE INDEX events_about_job ON events (about_job_id) WHERE about_job_id IS NOT NULL;

DROP INDEX jobs_dead;
CREATE INDEX jobs_dead ON jobs (tenant_id, id) WHERE status = 'failed' AND erased_at IS NULL;
