-- On a big table the statistics of the few rows that are queued or pending are always old. So each index of such rows
-- has a condition that only the query it is for implies: for any other the planner, which takes it for all but empty,
-- would rather read it from end to end than look ids up.
DROP INDEX jobs_by_ring, jobs_by_expiry, jobs_in_queue, deliveries_by_due;
CREATE INDEX jobs_by_ring ON jobs (ring_at) WHERE ring_at IS NOT NULL;
CREATE INDEX jobs_by_expiry ON jobs (expires_at)
  WHERE expires_at IS NOT NULL AND started_at IS NULL AND finished_at IS NULL;
CREATE INDEX jobs_in_queue ON jobs (model, priority, id) WHERE finished_at IS NULL AND lease_until IS NULL;
CREATE INDEX deliveries_by_due ON deliveries (next_at) WHERE next_at IS NOT NULL;

-- Sweeps and claims walk over the dead entries of what was due before. Measured: 1.5 ms each for 300,000 jobs, and with
-- 10 million rows the default lets a million gather.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE deliveries SET (autovacuum_vacuum_scale_factor = 0.05);
