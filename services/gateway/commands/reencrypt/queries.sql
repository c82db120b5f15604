-- name: list_tenant_secrets
-- A page ($2) of the secrets that sign the callbacks of single jobs, after an id ($1).
SELECT id, webhook_secret AS ciphertext FROM tenants WHERE id > $1 ORDER BY id LIMIT $2;

-- name: set_tenant_secrets
-- Does nothing if the secret has changed: it is encrypted with the first key already.
UPDATE tenants SET webhook_secret = $3 WHERE id = $1 AND webhook_secret = $2;

-- name: list_webhook_secrets
-- A page ($2) of the secrets of subscriptions, after an id ($1).
SELECT id, secret AS ciphertext FROM webhooks WHERE id > $1 ORDER BY id LIMIT $2;

-- name: set_webhook_secrets
-- Does nothing if the secret has changed: it is encrypted with the first key already.
UPDATE webhooks SET secret = $3 WHERE id = $1 AND secret = $2;

-- name: list_webhook_headers
-- A page ($2) of the headers of subscriptions, after an id ($1).
SELECT id, headers AS ciphertext FROM webhooks WHERE id > $1 AND headers IS NOT NULL ORDER BY id LIMIT $2;

-- name: set_webhook_headers
-- Does nothing if the secret has changed: it is encrypted with the first key already.
UPDATE webhooks SET headers = $3 WHERE id = $1 AND headers = $2;

-- name: list_old_secrets
-- A page ($2) of rotated secrets in their grace period, after an id ($1).
SELECT id, secret AS ciphertext FROM old_secrets WHERE id > $1 ORDER BY id LIMIT $2;

-- name: set_old_secrets
-- Does nothing if the secret has changed: it is encrypted with the first key already.
UPDATE old_secrets SET secret = $3 WHERE id = $1 AND secret = $2;
