-- name: end_current
-- Ends the current generation if it began $1 seconds ago and the next one is empty. Returns the next one. Until the
-- transaction commits, everybody still adds to the old one. Whoever read that before adds to it even later.
UPDATE generations g
SET ended_at = now()
FROM generations next
WHERE g.number = current_generation()
  AND g.ended_at IS NULL -- another dispatcher may have ended it meanwhile, which current_generation() does not see
  AND g.began_at <= now() - make_interval(secs => $1)
  AND next.number = g.number % 8 + 1 AND next.began_at IS NULL
RETURNING next.number;

-- name: begin
-- Makes an empty generation ($1) the current one. Empty it once more before that: if the planner knows it as empty, it
-- reads all of its indexes, and would go on when they are large.
UPDATE generations SET began_at = now() WHERE number = $1;

-- name: find_old
-- Returns the generations that ended $1 seconds ago and whose usage is counted, oldest first.
SELECT number
FROM generations g
WHERE ended_at <= now() - make_interval(secs => $1) AND NOT EXISTS (
  SELECT
  FROM jobs j
  WHERE j.generation > 0 AND j.generation = g.number AND j.ended_xid >= (SELECT counted_before FROM usage_progress)
)
ORDER BY ended_at;

-- name: keep_for_deliveries
-- Moves what the next $3 unfinished deliveries after an id ($2) need from a generation ($1) to the current one: their
-- events, their earlier attempts, and what belongs to their jobs. Returns the last id, how many deliveries were examined,
-- and their jobs.
WITH waiting AS MATERIALIZED (
  SELECT id, event_id, job_id FROM live_deliveries WHERE id > $2::uuid ORDER BY id LIMIT $3
), locked AS MATERIALIZED ( -- in the order of an erasure
  SELECT id FROM events WHERE generation = $1 AND id = ANY(ARRAY(SELECT event_id FROM waiting)) ORDER BY id FOR UPDATE
), events_kept AS (
  UPDATE events SET generation = current_generation() WHERE generation = $1 AND id = ANY(ARRAY(SELECT id FROM locked))
  RETURNING id
), deliveries_kept AS (
  UPDATE deliveries
  SET generation = CASE generation WHEN 0 THEN 0 ELSE current_generation() END, event_generation = current_generation()
  WHERE event_id = ANY(ARRAY(SELECT id FROM events_kept))
), attempts_kept AS (
  UPDATE attempts SET generation = current_generation()
  WHERE generation = $1 AND delivery_id = ANY(ARRAY(SELECT id FROM waiting))
), job_attempts_kept AS (
  UPDATE job_attempts SET generation = current_generation()
  WHERE generation = $1 AND job_id = ANY(ARRAY(SELECT job_id FROM waiting))
), steps_kept AS (
  UPDATE job_steps SET generation = current_generation()
  WHERE generation = $1 AND job_id = ANY(ARRAY(SELECT job_id FROM waiting))
)
SELECT id AS last, count(*) OVER () AS examined, ARRAY(SELECT job_id FROM waiting) AS jobs
FROM waiting
ORDER BY id DESC
LIMIT 1;

-- name: keep_for_jobs
-- Moves the history of the next $3 live jobs after an id ($2) from a generation ($1) to the current one. Returns the last
-- id, and how many jobs were examined.
WITH live AS MATERIALIZED (
  SELECT id, claim FROM live_jobs WHERE id > $2::uuid ORDER BY id LIMIT $3
), begun AS MATERIALIZED (
  SELECT id FROM live WHERE claim > 0
), events_kept AS (
  UPDATE events SET generation = current_generation()
  WHERE generation = $1 AND job_id = ANY(ARRAY(SELECT id FROM begun))
  RETURNING id
), deliveries_kept AS (
  UPDATE deliveries
  SET generation = CASE generation WHEN 0 THEN 0 ELSE current_generation() END, event_generation = current_generation()
  WHERE event_id = ANY(ARRAY(SELECT id FROM events_kept))
  RETURNING id
), delivery_attempts_kept AS (
  UPDATE attempts SET generation = current_generation()
  WHERE delivery_id = ANY(ARRAY(SELECT id FROM deliveries_kept)) AND generation <> current_generation()
), attempts_kept AS (
  UPDATE job_attempts SET generation = current_generation()
  WHERE generation = $1 AND job_id = ANY(ARRAY(SELECT id FROM begun))
), steps_kept AS (
  UPDATE job_steps SET generation = current_generation()
  WHERE generation = $1 AND job_id = ANY(ARRAY(SELECT id FROM begun))
)
SELECT id AS last, count(*) OVER () AS examined FROM live ORDER BY id DESC LIMIT 1;

-- name: keep_for_runs
-- Moves what the next $3 live runs after an id ($2) have of history from a generation ($1) to the current one: entries of
-- their streams, and attempts of their steps' jobs. Returns the last id, how many runs were examined, and those jobs.
WITH live AS MATERIALIZED (
  SELECT id FROM live_runs WHERE id > $2::uuid ORDER BY id LIMIT $3
), ended AS MATERIALIZED (
  SELECT id FROM jobs WHERE generation = $1::smallint AND parent = ANY(ARRAY(SELECT id FROM live))
), attempts_kept AS (
  UPDATE job_attempts SET generation = current_generation()
  WHERE generation = $1 AND job_id = ANY(ARRAY(SELECT id FROM ended))
), entries_kept AS (
  UPDATE job_steps SET generation = current_generation()
  WHERE generation = $1 AND job_id = ANY(ARRAY(SELECT id FROM live))
)
SELECT id AS last, count(*) OVER () AS examined, ARRAY(SELECT id FROM ended) AS jobs FROM live ORDER BY id DESC LIMIT 1;

-- name: empty
-- Empties a generation ($1) if it ended $2 seconds ago. Returns whether it did.
SELECT empty_generation($1, $2) AS emptied;

-- name: release_files
-- Lets a sweeper delete those of the next $3 files of jobs after a place ($1, $2) whose job is gone. Returns the last
-- place, and how many files were examined.
WITH page AS MATERIALIZED (
  SELECT job_id, id
  FROM files
  WHERE job_id IS NOT NULL AND (job_id, id) > ($1::uuid, $2::uuid)
  ORDER BY job_id, id
  LIMIT $3
), released AS (
  UPDATE files f
  SET expires_at = now(), job_id = NULL
  FROM page
  WHERE f.id = page.id AND f.job_id = page.job_id AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = page.job_id)
)
SELECT job_id, id AS last, count(*) OVER () AS examined FROM page ORDER BY job_id DESC, id DESC LIMIT 1;
