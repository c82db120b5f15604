-- name: find_named
-- What tenants' ($1) idempotency keys ($2) stand for, as it was first answered; keys that are a day old are free again.
SELECT k.tenant_id, k.key, k.fingerprint, k.job_id, k.batch_id, k.created_at, k.run_at, k.expires_at, k.traceparent, k.answer,
       j.erased_at IS NOT NULL AS erased
FROM idempotency_keys k
JOIN unnest($1::uuid[], $2::text[]) AS t(tenant_id, key) USING (tenant_id, key)
LEFT JOIN jobs j ON j.id = k.job_id
WHERE k.created_at >= now() - interval '1 day';

-- name: hold_key
-- Whether nobody else is at work under a tenant's ($1) idempotency key ($2); from now on nobody else is, until the
-- transaction ends.
SELECT pg_try_advisory_xact_lock(hashtextextended($1::uuid::text || $2::text, 0)) AS held;

-- name: name_batch
-- From now on a tenant's ($1) idempotency key ($2) stands for a batch ($4). Returns nothing where it was used within a day.
INSERT INTO idempotency_keys AS used (tenant_id, key, fingerprint, batch_id, traceparent, answer)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant_id, key) DO UPDATE
SET fingerprint = excluded.fingerprint,
    job_id = NULL,
    batch_id = excluded.batch_id,
    created_at = now(),
    run_at = NULL,
    expires_at = NULL,
    traceparent = excluded.traceparent,
    answer = excluded.answer
WHERE used.created_at < now() - interval '1 day'
RETURNING batch_id;
