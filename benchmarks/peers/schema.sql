CREATE TABLE jobs (
  id uuid PRIMARY KEY,
  status text NOT NULL DEFAULT 'queued',
  model text NOT NULL,
  inputs jsonb NOT NULL,
  metadata jsonb NOT NULL,
  webhook_url text,
  outputs jsonb,
  error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  ended_at timestamptz
);
