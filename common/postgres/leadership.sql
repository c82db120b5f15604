-- name: acquire_lease
-- Takes or renews the lease of a role ($1) for a process ($2) and for $3 seconds, if no other process holds it. A lease that
-- ends later than a new one is from before the clock was set back, and counts as over. now() cannot say that: this transaction
-- may have begun before the one that renewed the lease. A process that is fit ($4) also takes the lease of one that is not.
-- Returns whether the process holds it now, and otherwise for how many seconds another one does.
WITH acquired AS (
  UPDATE leader_leases
  SET holder = $2, expires_at = now() + make_interval(secs => $3::double precision), is_fit = $4
  WHERE role = $1
    AND (
      holder = $2 OR expires_at <= now() OR expires_at > clock_timestamp() + make_interval(secs => $3::double precision)
      OR ($4 AND NOT is_fit)
    )
  RETURNING role
)
SELECT
  EXISTS (SELECT FROM acquired) AS held,
  extract(epoch FROM greatest(expires_at, now()) - now())::double precision AS seconds
FROM leader_leases
WHERE role = $1;

-- name: release_lease
-- Ends the lease of a role ($1), if this process ($2) holds it.
UPDATE leader_leases SET expires_at = '-infinity' WHERE role = $1 AND holder = $2;
