-- name: keep_jobs
-- Moves those of the ended :jobs that are in a :generation to the current one.
UPDATE jobs SET generation = current_generation() WHERE generation = :generation::smallint AND id = ANY(:jobs::uuid[]);
