-- What may be claimed, by tenant: the claim skips from one tenant to the next in it, however long a tenant's queue is. What
-- waits for its time, or for a sweeper to ring for it (ring_at is run_at until then), is not in it.
CREATE INDEX jobs_by_turn ON jobs (model, priority, tenant_id, id) WHERE ring_at > run_at;
