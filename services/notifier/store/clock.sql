-- name: measure_clock_setback
-- Save the current time. Return by how many seconds it lies behind the latest saved time. One
-- caller at a time.
WITH before AS (
  SELECT latest_at FROM clock FOR UPDATE
)
UPDATE clock SET latest_at = clock_timestamp()
FROM before
RETURNING extract(epoch FROM before.latest_at - clock.latest_at)::double precision AS setback;

-- name: move_due_times_back
-- Move due times back by $1 seconds, because the clock was. A claim may be newer than that and
-- stays, but it lasts no longer than a new one ($2, seconds). Schedules move too, so that what began before
-- its subscription was disabled still did.
WITH waiting AS (
  UPDATE deliveries
  SET next_at = next_at - make_interval(secs => $1::double precision),
      schedule_started_at = schedule_started_at - make_interval(secs => $1::double precision)
  WHERE next_at IS NOT NULL AND lease_until IS NULL
), claimed AS (
  UPDATE deliveries
  SET next_at = now() + make_interval(secs => $2::double precision),
      lease_until = now() + make_interval(secs => $2::double precision)
  WHERE lease_until > now() + make_interval(secs => $2::double precision)
), endpoint AS (
  UPDATE endpoints
  SET next_at = next_at - make_interval(secs => $1::double precision),
      open_until = open_until - make_interval(secs => $1::double precision),
      rate_limited_until = rate_limited_until - make_interval(secs => $1::double precision),
      cancel_before = cancel_before - make_interval(secs => $1::double precision)
  WHERE next_at IS NOT NULL OR open_until IS NOT NULL OR rate_limited_until IS NOT NULL OR cancel_before IS NOT NULL
)
UPDATE recoveries SET next_at = next_at - make_interval(secs => $1::double precision) WHERE next_at IS NOT NULL;
