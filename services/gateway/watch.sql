-- name: find_stamps
-- What tells whether something has happened to jobs ($1), whoever's they are: nobody is shown it.
SELECT id, status, claim FROM jobs WHERE id = ANY($1::uuid[]);
