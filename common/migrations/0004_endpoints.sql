-- Where deliveries go: each subscription (under its own id), and for callbacks each origin of a tenant's. What is known
-- of a receiver's health is here, so that one receiver's trouble is nobody else's.
CREATE TABLE endpoints (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  webhook_id uuid UNIQUE REFERENCES webhooks ON DELETE CASCADE CHECK (webhook_id = id),
  origin text, -- scheme, host and port
  rate_limit integer CHECK (rate_limit >= 1), -- attempts a second
  next_at timestamptz, -- when a look for due deliveries is worth while; NULL where it has none
  paced_until timestamptz, -- no attempt before, for the rate limit
  failures integer NOT NULL DEFAULT 0, -- attempts that failed in a row
  failing_since timestamptz, -- the first of them
  open_until timestamptz, -- the circuit is open: no attempt before, then one at a time until one succeeds
  handicap integer NOT NULL GENERATED ALWAYS AS (CASE WHEN open_until IS NULL THEN failures ELSE 1000000 END) STORED,
  UNIQUE (tenant_id, origin),
  CHECK ((webhook_id IS NULL) <> (origin IS NULL)),
  CHECK ((failures > 0) = (failing_since IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX endpoints_by_due ON endpoints (next_at) WHERE next_at IS NOT NULL;

INSERT INTO endpoints (id, tenant_id, webhook_id) SELECT id, tenant_id, id FROM webhooks;
INSERT INTO endpoints (id, tenant_id, origin)
SELECT gen_random_uuid(), tenant_id, origin
FROM (SELECT DISTINCT tenant_id, lower(substring(url FROM '^[^/]*//[^/?]*')) AS origin FROM deliveries
      WHERE webhook_id IS NULL) callbacks;

ALTER TABLE webhooks
  ADD disabled_at timestamptz,
  ADD disabled_reason text CHECK (disabled_reason IN ('gone', 'failing')),
  ADD CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL));

-- Secrets that sign beside the new one for a while after a rotation; those of a tenant have no webhook.
CREATE TABLE old_secrets (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  webhook_id uuid REFERENCES webhooks ON DELETE CASCADE,
  secret bytea NOT NULL, -- sealed
  until timestamptz NOT NULL
);
CREATE INDEX old_secrets_by_owner ON old_secrets (webhook_id, tenant_id);

-- Operational events belong to no job.
ALTER TABLE events ALTER job_id DROP NOT NULL, ALTER model DROP NOT NULL, ADD traceparent text;
CREATE INDEX events_of_no_job ON events (created_at) WHERE job_id IS NULL;

ALTER TABLE deliveries
  ALTER job_id DROP NOT NULL,
  ADD endpoint_id uuid REFERENCES endpoints ON DELETE CASCADE,
  ADD event_type text,
  ADD began_at timestamptz NOT NULL DEFAULT now(), -- when its schedule began, or began again
  ADD tries integer NOT NULL DEFAULT 0, -- attempts since then, those that failed for us left out
  ADD lease_until timestamptz, -- an attempt is under way until then
  DROP CONSTRAINT deliveries_status_check,
  ADD CONSTRAINT deliveries_status_check CHECK (status IN ('pending', 'succeeded', 'exhausted', 'canceled')),
  ADD CHECK (lease_until IS NULL OR status = 'pending'),
  DROP CONSTRAINT deliveries_webhook_id_fkey; -- a subscription's endpoint is there as long as it is
UPDATE deliveries d
SET endpoint_id = coalesce(d.webhook_id, (
      SELECT e.id FROM endpoints e
      WHERE e.tenant_id = d.tenant_id AND e.origin = lower(substring(d.url FROM '^[^/]*//[^/?]*')))),
    began_at = d.created_at,
    event_type = (SELECT type FROM events WHERE id = d.event_id),
    tries = (SELECT count(*) FROM attempts WHERE delivery_id = d.id);
ALTER TABLE deliveries
  ALTER endpoint_id SET NOT NULL,
  ALTER event_type SET NOT NULL,
  ADD CHECK (webhook_id IS NULL OR webhook_id = endpoint_id);
UPDATE endpoints e SET next_at = now() WHERE EXISTS (
  SELECT 1 FROM deliveries d WHERE d.endpoint_id = e.id AND d.status = 'pending');

DROP INDEX deliveries_by_due, deliveries_by_job, deliveries_by_webhook;
CREATE INDEX deliveries_by_due ON deliveries (endpoint_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_in_flight ON deliveries (endpoint_id, lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX deliveries_by_job ON deliveries (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX deliveries_by_endpoint ON deliveries (endpoint_id, id);

-- Re-sending what failed in a time, a few at a time; the row is where it has come to.
CREATE TABLE recoveries (
  id uuid PRIMARY KEY,
  webhook_id uuid NOT NULL REFERENCES webhooks ON DELETE CASCADE,
  since timestamptz NOT NULL,
  until timestamptz NOT NULL,
  behind uuid, -- the last delivery looked at; NULL at the start
  recovered integer NOT NULL DEFAULT 0,
  next_at timestamptz DEFAULT now(), -- when it goes on; NULL once it is done
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (until > since)
);
CREATE INDEX recoveries_by_due ON recoveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX recoveries_by_webhook ON recoveries (webhook_id);
