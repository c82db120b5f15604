-- Many jobs of one call. They are committed with the batch or not at all; who is wrong among them is in the answer only.
CREATE TABLE batches (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  total integer NOT NULL, -- jobs asked for
  accepted integer NOT NULL CHECK (accepted BETWEEN 1 AND total),
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz, -- when the last of its jobs had ended; said once, whatever is run again later
  key text CHECK (length(key) BETWEEN 1 AND 255), -- what its client called the call; forgotten after a day
  fingerprint bytea CHECK (octet_length(fingerprint) = 32), -- SHA-256 of the body
  traceparent text NOT NULL,
  CHECK ((key IS NULL) = (fingerprint IS NULL))
);
CREATE UNIQUE INDEX batches_by_key ON batches (tenant_id, key) WHERE key IS NOT NULL;
CREATE INDEX batches_open ON batches (id) WHERE finished_at IS NULL;
CREATE INDEX batches_by_end ON batches (finished_at) WHERE finished_at IS NOT NULL;

ALTER TABLE jobs ADD batch_id uuid REFERENCES batches;
CREATE INDEX jobs_of_batch ON jobs (batch_id, status) WHERE batch_id IS NOT NULL;
