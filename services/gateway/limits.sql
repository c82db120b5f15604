-- name: take_permits
-- Takes as many permits as are wanted ($2), or are there, out of the buckets of keys ($1), each of which holds what a
-- second brings ($3). In order of id, so that two gateways never wait for each other in a circle. Returns how many were
-- taken, and in how many seconds the bucket is full again; nothing of a key that has no bucket yet. Parts of a
-- microsecond get lost in times: a hundredth of a permit makes up for it. No bucket takes longer than two seconds to be
-- full again, should the clock have been set back.
WITH asked AS (
  SELECT * FROM unnest($1::uuid[], $2::integer[], $3::integer[]) AS t(key_id, wanted, rate)
), held AS (
  SELECT b.key_id, a.wanted, a.rate, least(greatest(b.full_at, now()), now() + interval '2 seconds') AS full_at
  FROM rate_limits b
  JOIN asked a ON a.key_id = b.key_id
  ORDER BY b.key_id
  FOR UPDATE OF b
), taken AS (
  SELECT *, greatest(0, least(wanted, floor(rate * (1 - extract(epoch FROM full_at - now())) + 0.01)))::integer AS permits
  FROM held
)
UPDATE rate_limits b
SET full_at = t.full_at + make_interval(secs => t.permits / t.rate::double precision)
FROM taken t
WHERE b.key_id = t.key_id
RETURNING b.key_id, t.permits, extract(epoch FROM b.full_at - now())::double precision AS full_in;

-- name: add_buckets
-- Full ones.
INSERT INTO rate_limits (key_id, full_at) SELECT id, now() FROM unnest($1::uuid[]) id ORDER BY id ON CONFLICT DO NOTHING;

-- name: count_queues
-- How many jobs of tenants ($1) and for models ($2) wait, each counted up to what is allowed: the tenant's own limit or
-- $3, for a model $4.
WITH asked AS (
  SELECT id, coalesce(max_queued, $3::integer) AS most FROM tenants WHERE id = ANY($1::uuid[])
)
SELECT a.id AS tenant_id, NULL AS model, a.most, (
  SELECT count(*)
  FROM (
    SELECT FROM jobs j WHERE j.tenant_id = a.id AND j.finished_at IS NULL AND j.worker IS NULL LIMIT a.most
  ) counted
) AS jobs
FROM asked a
UNION ALL
SELECT NULL, name, $4::integer, (
  SELECT count(*)
  FROM (
    SELECT FROM jobs j WHERE j.model = name AND j.finished_at IS NULL AND j.lease_until IS NULL LIMIT $4::integer
  ) counted
)
FROM unnest($2::text[]) name;

-- name: count_due
-- Of what waits, of tenants ($1) and for models ($2), but of no more than $3 jobs each: how many could run now, and in how
-- many seconds the next can; and whether that was all of them.
SELECT w.id AS tenant_id, w.name AS model, count(*) FILTER (WHERE w.run_at <= now()) AS jobs,
       extract(epoch FROM min(w.run_at) FILTER (WHERE w.run_at > now()) - now())::double precision AS next_in,
       count(*) < $3 AS whole
FROM (
  SELECT t.id, NULL AS name, run_at
  FROM unnest($1::uuid[]) AS t(id)
  CROSS JOIN LATERAL (
    SELECT j.run_at FROM jobs j WHERE j.tenant_id = t.id AND j.finished_at IS NULL AND j.worker IS NULL LIMIT $3
  ) waiting
  UNION ALL
  SELECT NULL, name, run_at
  FROM unnest($2::text[]) name
  CROSS JOIN LATERAL (
    SELECT j.run_at FROM jobs j WHERE j.model = name AND j.finished_at IS NULL AND j.lease_until IS NULL LIMIT $3
  ) waiting
) w
GROUP BY w.id, w.name;

-- name: count_ended
-- The jobs that ended within the last minute, at most $1, by whose they were: how many, and how long ago the first.
SELECT tenant_id, model, count(*) AS jobs, extract(epoch FROM now() - min(finished_at))::double precision AS seconds
FROM (
  SELECT tenant_id, model, finished_at
  FROM jobs
  WHERE finished_at > now() - interval '1 minute'
  ORDER BY finished_at DESC
  LIMIT $1
) latest
GROUP BY tenant_id, model;
