-- name: find_overdue
-- Finds up to :limit running jobs whose lease lapses within :seconds, or has lapsed. A locked job is left out: its
-- dispatcher cannot renew its lease either.
SELECT id, lease_until
FROM live_jobs
WHERE lease_until < now() + make_interval(secs => :seconds)
ORDER BY lease_until
LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED;

-- name: find_abandoned
-- Finds those of the running :jobs whose lease has lapsed. Their dispatcher died or lost its connection. A locked job
-- is left for a later sweep, because its end would have to wait. Suspects come first: what becomes of them depends on
-- the jobs beside them, as long as these run.
SELECT j.*, now() AS now
FROM live_jobs j
WHERE j.id = ANY(:jobs::uuid[]) AND j.lease_until < now()
ORDER BY j.probation IS NULL, j.lease_until
LIMIT :limit
FOR NO KEY UPDATE OF j SKIP LOCKED;

-- name: find_orphaned
-- Finds running jobs of the given :sessions, whose dispatchers died. A locked job is left for a later sweep. Suspects
-- come first.
SELECT j.*, now() AS now
FROM live_jobs j
WHERE j.lease_until > '-infinity' AND j.session = ANY(:sessions::bigint[])
ORDER BY j.probation IS NULL, j.lease_until
LIMIT :limit
FOR NO KEY UPDATE OF j SKIP LOCKED;

-- name: find_beside
-- Finds what else runs on the given :workers, as far as anybody knows.
SELECT worker, tenant_id, started_at
FROM live_jobs
WHERE lease_until > '-infinity' AND worker = ANY(:workers::text[]);
