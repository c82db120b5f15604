-- No statement counts the jobs of steps: a run counts itself, until it ends. Those that read ended jobs read steps, too,
-- within the same limit.

-- name: count_waiting
-- Counts the waiting jobs of a tenant ($1) by model and priority, at most $2, oldest first: those that are due, those whose
-- time has not come, and since when the oldest due one waits. The BETWEEN and the order make the planner use the index.
SELECT model, priority, count(*) FILTER (WHERE run_at <= now()) AS waiting,
       count(*) FILTER (WHERE run_at > now()) AS scheduled,
       min(greatest(created_at, run_at)) FILTER (WHERE run_at <= now()) AS oldest_at
FROM (
  (
    SELECT model, priority, created_at, run_at
    FROM live_jobs
    WHERE tenant_id BETWEEN $1 AND $1 AND finished_at IS NULL AND lease_until IS NULL AND parent IS NULL
    ORDER BY tenant_id, created_at
    LIMIT $2
  )
  UNION ALL
  (SELECT model, priority, created_at, run_at FROM live_runs WHERE tenant_id = $1 AND lease_until IS NULL LIMIT $2)
) waiting
GROUP BY model, priority;

-- name: count_own_running
-- Counts the running jobs of a tenant ($1) by model and priority. All that runs is read: it is as much as there are slots.
SELECT model, priority, count(*) AS running
FROM (
  SELECT model, priority FROM live_jobs WHERE lease_until > '-infinity' AND tenant_id = $1 AND parent IS NULL
  UNION ALL
  SELECT model, priority FROM live_runs WHERE tenant_id = $1 AND status = 'processing'
) running
GROUP BY model, priority;

-- name: measure_ended
-- Returns what became of the latest $2 jobs of a tenant ($1) that ended within the last hour: by model, priority, and
-- whether they ended within 5 or 60 minutes. `covered` is how many seconds these jobs cover. Times are in milliseconds,
-- of jobs that succeeded: the medians, and what 95 % of them did not exceed. `hits` took the result of another job at their
-- submit, and `joins` after they waited for it.
WITH recent AS MATERIALIZED (
  SELECT model, priority, status, created_at, finished_at, inference_ms, parent, reused_from IS NOT NULL AS is_reused,
         greatest(0, extract(epoch FROM started_at - greatest(created_at, run_at)) * 1000)::double precision AS queue_ms
  FROM jobs
  WHERE (tenant_id, finished_at) > ($1, now() - interval '1 hour')
    AND (tenant_id, finished_at) < ($1, 'infinity') -- both bounds hold for no other tenant, and fit no other index
    AND generation > 0 AND finished_at > '-infinity'
  ORDER BY tenant_id DESC, finished_at DESC
  LIMIT $2
), limits AS (
  SELECT CASE WHEN count(*) = $2 THEN extract(epoch FROM now() - min(finished_at)) ELSE 3600 END AS covered FROM recent
)
SELECT
  model, priority, minutes,
  least(60 * minutes, (SELECT covered FROM limits))::double precision AS covered,
  count(*) AS ended, count(*) FILTER (WHERE status = 'failed') AS failed,
  count(*) FILTER (WHERE is_reused AND finished_at = created_at) AS hits,
  count(*) FILTER (WHERE is_reused AND finished_at > created_at) AS joins,
  percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY queue_ms) FILTER (WHERE status = 'succeeded') AS queue_ms,
  percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY inference_ms) FILTER (WHERE status = 'succeeded')
    AS inference_ms
FROM recent
JOIN unnest(ARRAY[5, 60]) minutes ON finished_at > now() - minutes * interval '1 minute'
WHERE parent IS NULL
GROUP BY model, priority, minutes;

-- name: count_by_minute
-- Counts what became of a tenant's ($1) jobs in each minute of the last hour, oldest first: how many ended and failed, and
-- by how many the numbers of jobs that are due and that run grew. It reads the jobs that wait, at most $2 and oldest first,
-- those that run, and the latest $3 that ended. The first minute is not whole, and stands for all that is older.
WITH seen AS (
  (
    SELECT greatest(created_at, run_at) AS due_at, NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at,
           false AS failed
    FROM live_jobs
    WHERE tenant_id BETWEEN $1 AND $1 AND finished_at IS NULL AND lease_until IS NULL AND parent IS NULL
    ORDER BY tenant_id, created_at
    LIMIT $2
  )
  UNION ALL
  SELECT greatest(created_at, run_at), started_at, NULL, false
  FROM live_jobs
  WHERE lease_until > '-infinity' AND tenant_id = $1 AND parent IS NULL
  UNION ALL
  (SELECT greatest(created_at, run_at), started_at, NULL, false FROM live_runs WHERE tenant_id = $1 LIMIT $2)
  UNION ALL
  (
    SELECT least(due_at, finished_at), started_at, finished_at, failed
    FROM (
      SELECT greatest(created_at, run_at) AS due_at, started_at, finished_at, status = 'failed' AS failed, parent
      FROM jobs
      WHERE (tenant_id, finished_at) > ($1, now() - interval '1 hour')
        AND (tenant_id, finished_at) < ($1, 'infinity') -- as in measure_ended
        AND generation > 0 AND finished_at > '-infinity'
      ORDER BY tenant_id DESC, finished_at DESC
      LIMIT $3
    ) latest
    WHERE parent IS NULL
  )
), counted AS (
  SELECT
    date_bin('1 minute', greatest(due_at, now() - interval '1 hour'), 'epoch') AS due_at,
    CASE WHEN started_at >= due_at THEN date_bin('1 minute', greatest(started_at, now() - interval '1 hour'), 'epoch') END
      AS started_at, -- NULL: it did not run after it was due last
    date_bin('1 minute', finished_at, 'epoch') AS finished_at, failed, count(*) AS jobs
  FROM seen
  GROUP BY 1, 2, 3, 4
)
SELECT
  minute AS at, coalesce(sum(jobs * change.ended), 0)::bigint AS ended,
  coalesce(sum(jobs * change.ended) FILTER (WHERE failed), 0)::bigint AS failed,
  coalesce(sum(jobs * change.waiting), 0)::bigint AS waiting, coalesce(sum(jobs * change.running), 0)::bigint AS running
FROM generate_series(date_bin('1 minute', now() - interval '1 hour', 'epoch'), now(), interval '1 minute') minute
LEFT JOIN (
  counted CROSS JOIN LATERAL (
    VALUES
      (due_at, 0, 1, 0),
      (started_at, 0, -1, 1),
      (finished_at, 1, -(started_at IS NULL)::integer, -(started_at IS NOT NULL)::integer)
  ) change (at, ended, waiting, running)
) ON change.at = minute
GROUP BY minute
ORDER BY minute;
