"""What a later release does to the database, while services of this one run."""

import msgspec

# What allows more states and priorities of a job, where the database has the checks of tests, and more scopes of a key.
ALLOW_MORE = """
ALTER TABLE jobs DROP CONSTRAINT IF EXISTS jobs_status_check, DROP CONSTRAINT IF EXISTS jobs_priority_check
"""
ALLOW_MORE_SCOPES = "ALTER TABLE api_keys DROP CONSTRAINT api_keys_scopes_check"
ADD_TO_VIEWS = """
DO $$
DECLARE
  name text;
  query text;
BEGIN
  FOREACH name IN ARRAY ARRAY['job_facts', 'delivery_requests'] LOOP
    query := rtrim(pg_get_viewdef(name::regclass), ';');
    EXECUTE format('CREATE OR REPLACE VIEW %I AS SELECT v.*, 1 AS later FROM (%s) v', name, query);
  END LOOP;
END
$$;
"""
# Migrations that add columns to what statements return. Together they would deadlock with statements of the services.
ADD_COLUMNS = (
    "ALTER TABLE jobs ADD COLUMN later integer",
    "ALTER TABLE webhooks ADD COLUMN later integer",
    ADD_TO_VIEWS,
)
SET_STATUS = "UPDATE jobs SET status = 'paused' WHERE id = $1"
SET_PRIORITY = "UPDATE jobs SET priority = 'urgent' WHERE id = $1"
# Packed inputs: one with a new datatype, and two whose contents are of a new kind.
NEWER_INPUTS = tuple(
    msgspec.msgpack.encode([["x", datatype, [1], data]])
    for datatype, data in (("FP8", b"\0"), ("FP32", ["stream", "s1"]), ("FP32", {"parts": []}))
)
# A declaration with a new datatype, of a version of a model; and a key with one more scope.
DECLARE_NEWER = """
UPDATE served_models SET inputs = '[{"name": "x", "datatype": "FP8", "shape": [1]}]' WHERE name = $1 AND version = $2
"""
ADD_SCOPE = "UPDATE api_keys SET scopes = scopes || '{replay}' WHERE id = $1"
# Jobs that wait for a time, as a later release changes them.
PAUSE = "UPDATE jobs SET status = 'paused', scheduled_at = NULL, expires_at = now() WHERE id = $1"
LOSE = """
UPDATE jobs
SET status = 'processing', priority = 'urgent', scheduled_at = NULL, lease_until = now(), worker = 'later', claim = 1,
    attempt = 1, started_at = now()
WHERE id = $1
"""
REPLACE_INPUTS = "UPDATE jobs SET tensors = $2, scheduled_at = now() WHERE id = $1"
# A dispatcher that serves a model with a new datatype.
SERVE_NEWER = """
INSERT INTO served_models
SELECT (jsonb_populate_record(
  s, '{"name": "later", "worker": "later", "session": null, "inputs": [{"name": "x", "datatype": "FP8", "shape": [1]}]}'
)).*
FROM served_models s
WHERE name = 'echo'
"""
ADD_SCOPES = "UPDATE api_keys SET scopes = scopes || '{replay}'"
