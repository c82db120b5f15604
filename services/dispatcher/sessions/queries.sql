-- name: lock_session
-- Takes a session's lock ($1) for as long as the connection lives. A process shares the lock with its own former
-- connection, which the server may not have missed yet. Behind a pooler it takes none: the pooler told the client another
-- process id ($2) than the server's.
--
-- Returns for how many seconds no event has ended all connections at once: a start of the server, a recovery from a crash
-- (it resets the statistics) or a failover.
SELECT
  pg_backend_pid() <> $2 AS is_pooled,
  CASE WHEN pg_backend_pid() = $2 THEN pg_advisory_lock_shared($1) END,
  extract(epoch FROM now() - greatest(pg_postmaster_start_time(), stats_reset, pg_last_xact_replay_timestamp()))
    ::double precision AS seconds_up
FROM pg_stat_bgwriter;

-- name: note_liveness
-- Records that a dispatcher ($1) lives.
INSERT INTO dispatchers (worker) VALUES ($1) ON CONFLICT (worker) DO UPDATE SET seen_at = now();

-- name: forget_models
-- Makes the models of lost sessions ($1) count as not ready.
UPDATE served_models SET session = NULL, updated_at = '-infinity' WHERE session = ANY($1::bigint[]);

-- name: find_free_sessions
-- Finds the sessions of running jobs and of models, and the caller's own ($1), whose lock no connection holds.
SELECT session FROM live_jobs WHERE lease_until > '-infinity' AND session IS NOT NULL
UNION
SELECT session FROM served_models WHERE session IS NOT NULL
UNION
SELECT $1::bigint
EXCEPT
SELECT (classid::bigint << 32) | objid::bigint
FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 -- of one bigint
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
