-- name: list_tenant_secrets
SELECT id, webhook_secret AS sealed FROM tenants WHERE id > $1 ORDER BY id LIMIT $2;

-- name: set_tenant_secrets
-- Unless it was changed meanwhile: then it is sealed with the first key already.
UPDATE tenants SET webhook_secret = $3 WHERE id = $1 AND webhook_secret = $2;

-- name: list_webhook_secrets
SELECT id, secret AS sealed FROM webhooks WHERE id > $1 ORDER BY id LIMIT $2;

-- name: set_webhook_secrets
-- Unless it was changed meanwhile: then it is sealed with the first key already.
UPDATE webhooks SET secret = $3 WHERE id = $1 AND secret = $2;

-- name: list_webhook_headers
SELECT id, headers AS sealed FROM webhooks WHERE id > $1 AND headers IS NOT NULL ORDER BY id LIMIT $2;

-- name: set_webhook_headers
-- Unless it was changed meanwhile: then it is sealed with the first key already.
UPDATE webhooks SET headers = $3 WHERE id = $1 AND headers = $2;

-- name: list_old_secrets
SELECT id, secret AS sealed FROM old_secrets WHERE id > $1 ORDER BY id LIMIT $2;

-- name: set_old_secrets
-- Unless it was changed meanwhile: then it is sealed with the first key already.
UPDATE old_secrets SET secret = $3 WHERE id = $1 AND secret = $2;
