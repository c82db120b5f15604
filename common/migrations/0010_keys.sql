-- What a key may do (all of it where nothing else was said), how often, and when it was last used, to the minute.
ALTER TABLE api_keys
  ADD scopes text[] NOT NULL DEFAULT '{submit,read,admin}'
    CHECK (cardinality(scopes) >= 1 AND scopes <@ '{submit,read,admin}'),
  ADD rate_limit integer CHECK (rate_limit >= 0), -- requests a second, 0 for any number; NULL: the gateway's setting
  ADD last_used_at timestamptz;

-- Each limited key's bucket of permits, all gateways': when it is full again. Written with most requests, so without the
-- log of writes; after a crash all are full.
CREATE UNLOGGED TABLE rate_limits (
  key_id uuid PRIMARY KEY REFERENCES api_keys,
  full_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- How many jobs of a tenant may wait; NULL: the gateway's setting. The index is for counting them: a job without a worker
-- is one without a lease, but no other query says it so (see 0003_plans.sql).
ALTER TABLE tenants ADD max_queued integer CHECK (max_queued >= 0);
CREATE INDEX jobs_in_queue_by_tenant ON jobs (tenant_id) WHERE finished_at IS NULL AND worker IS NULL;
