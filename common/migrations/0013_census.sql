-- What the census counts, and little else: such rows are few among all.
CREATE INDEX webhooks_disabled ON webhooks (disabled_at) WHERE disabled_at IS NOT NULL;
CREATE INDEX endpoints_open ON endpoints (open_until) WHERE open_until IS NOT NULL;
