-- The statements that write keys of jobs are with the jobs: `keyed` in common/jobs/submit.sql.

-- name: find_idempotency_keys
-- Returns what tenants' ($1) idempotency keys ($2) belong to, as in the first response. Keys are free again after a day. The
-- lock gives the answer a commit, which waits for the synchronous standby: the commit of the first request may have been
-- interrupted while it waited. The lock holds up nobody else who reads or replaces the key. Without a key, there is no commit.
SELECT k.tenant_id, k.key, k.fingerprint, k.job_id, k.batch_id, k.created_at, k.run_at, k.expires_at, k.traceparent, k.answer,
       j.erased_at IS NOT NULL AS erased, CASE WHEN j.run_state IS NOT NULL THEN j.version END AS run_version,
       coalesce(j.reused_from IS NOT NULL AND j.finished_at = j.created_at, false) AS has_ended
FROM idempotency_keys k
JOIN unnest($1::uuid[], $2::text[]) AS t(tenant_id, key) USING (tenant_id, key)
LEFT JOIN jobs j ON j.id = k.job_id
WHERE k.created_at >= now() - interval '1 day'
FOR KEY SHARE OF k;

-- name: lock_idempotency_key
-- Locks a tenant's ($1) idempotency key ($2) until the transaction ends. Returns false if another transaction holds it.
SELECT pg_try_advisory_xact_lock(hashtextextended($1::uuid::text || $2::text, 0)) AS locked;

-- name: add_batch_key
-- Records that a tenant's ($1) idempotency key ($2) belongs to a batch ($4). Returns no row if the key is in use.
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
