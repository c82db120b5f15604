-- name: renew_leases
-- Renews the leases of jobs under their claims by :lease seconds, but for those of locked jobs: waiting for one lock
-- would let all other leases lapse. Returns the claims that are still held. `renewed` is false if the job was locked.
-- `canceling` says that a cancel was requested, so a lost cancel message is only a delay. Ends the probation of jobs
-- that have survived it: their dispatcher has just shown that it lives.
WITH held AS MATERIALIZED (
  SELECT j.id, j.claim, j.status = 'canceling' AS canceling
  FROM live_jobs j
  JOIN unnest(:claims.id::uuid[], :claims.claim::bigint[]) AS t(id, claim) ON j.id = t.id AND j.claim = t.claim
  WHERE j.status IN ('processing', 'canceling')
), locked AS MATERIALIZED (
  SELECT j.id
  FROM live_jobs j
  JOIN held ON j.id = held.id AND j.claim = held.claim
  WHERE j.status IN ('processing', 'canceling')
  FOR NO KEY UPDATE OF j SKIP LOCKED -- whoever adds steps does not conflict with it
), renewed AS (
  UPDATE live_jobs j
  SET lease_until = now() + make_interval(secs => :lease::double precision),
      probation = CASE WHEN j.started_at > now() - make_interval(secs => j.probation) THEN j.probation END
  FROM locked
  WHERE j.id = locked.id
  RETURNING j.id
)
SELECT id, claim, canceling, id IN (SELECT id FROM renewed) AS renewed FROM held;
