-- name: find_health
-- Returns the circuits of subscriptions ($1), and what is pending for each, from at most $2 deliveries that have a due
-- time and the $2 newest: how many, and since when the oldest is due. Deliveries that are to be canceled do not count.
SELECT e.id AS webhook_id, e.open_until IS NOT NULL AS open, e.failing_since,
       least(pending.deliveries, $2)::integer AS pending, pending.oldest_due_at
FROM endpoints e
CROSS JOIN LATERAL (
  SELECT count(*) AS deliveries, min(due_at) FILTER (WHERE due_at <= now()) AS oldest_due_at
  FROM (
    (
      SELECT greatest(d.next_at, d.schedule_started_at) AS due_at, d.schedule_started_at, d.lease_until
      FROM live_deliveries d
      WHERE d.endpoint_id = e.id AND d.next_at IS NOT NULL
      ORDER BY d.next_at
      LIMIT $2
    )
    UNION ALL
    SELECT newest.created_at, newest.schedule_started_at, NULL
    FROM (
      SELECT d.status, d.next_at, d.created_at, d.schedule_started_at
      FROM live_deliveries d
      WHERE d.endpoint_id >= e.id AND (d.endpoint_id, d.id) <= (e.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      ORDER BY d.endpoint_id DESC, d.id DESC -- as in list_webhook_deliveries
      LIMIT $2
    ) newest
    WHERE newest.status = 'pending' AND newest.next_at IS NULL
  ) due
  WHERE (due.schedule_started_at < e.cancel_before AND (due.lease_until > now()) IS NOT TRUE) IS NOT TRUE
) pending
WHERE e.id = ANY($1::uuid[]);

-- name: measure_deliveries
-- Returns what became of the newest $2 deliveries of each subscription ($1) within 60 minutes and within a day: how many
-- ended, and how their latest attempts went, at most $3 of each before the one that ended it. Times are in milliseconds,
-- of attempts that succeeded: the median, and what 95 % of them did not exceed. `counted_since` is when the oldest of the
-- deliveries was created, if there may be more.
WITH newest AS MATERIALIZED (
  SELECT d.*
  FROM unnest($1::uuid[]) AS webhooks(id)
  CROSS JOIN LATERAL (
    SELECT d.endpoint_id, d.id, d.status, d.attempt, d.created_at, d.finished_at, d.started_at, d.duration_ms, d.error
    FROM deliveries d
    WHERE d.endpoint_id >= webhooks.id
      AND (d.endpoint_id, d.id) <= (webhooks.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    ORDER BY d.endpoint_id DESC, d.id DESC -- as in list_webhook_deliveries
    LIMIT $2
  ) d
), ended AS (
  SELECT endpoint_id, minutes, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
         count(*) FILTER (WHERE status = 'exhausted') AS failed
  FROM newest
  JOIN unnest(ARRAY[60, 1440]) minutes ON finished_at > now() - minutes * interval '1 minute'
  GROUP BY endpoint_id, minutes
), tried AS (
  SELECT n.endpoint_id, minutes, count(*) AS attempts, count(a.error) AS failed_attempts,
         percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY a.duration_ms) FILTER (WHERE a.error IS NULL) AS durations
  FROM newest n
  CROSS JOIN LATERAL (
    SELECT n.started_at, n.duration_ms, n.error WHERE n.started_at IS NOT NULL
    UNION ALL
    (
      SELECT earlier.started_at, earlier.duration_ms, earlier.error
      FROM attempts earlier
      WHERE earlier.delivery_id = n.id AND n.attempt > num_nonnulls(n.started_at) -- few deliveries have any
      ORDER BY earlier.number DESC
      LIMIT $3
    )
  ) a
  JOIN unnest(ARRAY[60, 1440]) minutes ON a.started_at > now() - minutes * interval '1 minute'
  GROUP BY n.endpoint_id, minutes
), counted AS (
  SELECT endpoint_id, CASE WHEN count(*) = $2 THEN min(created_at) END AS since FROM newest GROUP BY endpoint_id
)
SELECT endpoint_id AS webhook_id, minutes, counted.since AS counted_since, coalesce(succeeded, 0) AS succeeded,
       coalesce(failed, 0) AS failed, coalesce(attempts, 0) AS attempts, coalesce(failed_attempts, 0) AS failed_attempts,
       durations
FROM counted
CROSS JOIN unnest(ARRAY[60, 1440]) minutes
LEFT JOIN ended USING (endpoint_id, minutes)
LEFT JOIN tried USING (endpoint_id, minutes);
