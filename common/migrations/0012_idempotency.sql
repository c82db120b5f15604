-- A key is good for a day, whatever becomes of its job or batch: what the first answer said is here, or in the request itself.
ALTER TABLE idempotency_keys
  DROP CONSTRAINT idempotency_keys_job_id_fkey,
  ALTER job_id DROP NOT NULL,
  ALTER run_at DROP NOT NULL,
  ADD batch_id uuid,
  ADD traceparent text,
  ADD answer bytea, -- of a batch, JSON: BatchAnswer in services/gateway/batches.py
  ADD CHECK (num_nonnulls(job_id, batch_id) = 1),
  ADD CHECK (num_nulls(job_id, run_at) IN (0, 2)),
  ADD CHECK (num_nulls(batch_id, answer) IN (0, 2));
ALTER TABLE idempotency_keys ALTER answer SET COMPRESSION lz4;
DROP INDEX idempotency_keys_by_job;
UPDATE idempotency_keys k SET traceparent = j.traceparent FROM jobs j WHERE j.id = k.job_id;
ALTER TABLE idempotency_keys ALTER traceparent SET NOT NULL;

-- One space of names for both.
INSERT INTO idempotency_keys (tenant_id, key, fingerprint, batch_id, created_at, traceparent, answer)
SELECT tenant_id, key, fingerprint, id, created_at, traceparent,
       convert_to(json_build_object('total', total, 'accepted', accepted, 'errors', '[]'::json)::text, 'UTF8')
FROM batches
WHERE key IS NOT NULL
ON CONFLICT DO NOTHING;
ALTER TABLE batches DROP COLUMN key, DROP COLUMN fingerprint;
