-- What a client called its submits: the same name within a day is the same job. The times are those of the first answer.
CREATE TABLE idempotency_keys (
  tenant_id uuid NOT NULL REFERENCES tenants,
  key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32), -- SHA-256 of what was asked for
  job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  run_at timestamptz NOT NULL,
  expires_at timestamptz,
  PRIMARY KEY (tenant_id, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_by_job ON idempotency_keys (job_id);
