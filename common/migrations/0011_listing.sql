-- What a tenant lists, newest first. A job is written into each index it fulfils whenever it changes, so none of these
-- holds it while it is claimed, renewed and run: two hold it while it waits, two others from its end on. Of what runs
-- there is never much. As in 0003, no other query implies these conditions.
CREATE INDEX jobs_ended ON jobs (tenant_id, status, created_at, id)
  WHERE status IN ('succeeded', 'failed', 'canceled', 'expired');
CREATE INDEX jobs_ended_of_model ON jobs (tenant_id, model, status, created_at, id)
  WHERE status IN ('succeeded', 'failed', 'canceled', 'expired');
CREATE INDEX jobs_waiting ON jobs (tenant_id, created_at, id) WHERE finished_at IS NULL AND lease_until IS NULL;
CREATE INDEX jobs_waiting_of_model ON jobs (tenant_id, model, created_at, id)
  WHERE finished_at IS NULL AND lease_until IS NULL;
