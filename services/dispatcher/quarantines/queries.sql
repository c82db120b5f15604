-- name: begin_quarantines
-- Begins the quarantine of models ($2) of a server ($1), except for those that are in quarantine already. Forgets those
-- that have been over for a day.
WITH forgotten AS (
  DELETE FROM quarantines WHERE ended_at < now() - interval '1 day' AND NOT (server = $1 AND model = ANY($2::text[]))
)
INSERT INTO quarantines (server, model)
SELECT $1, model FROM unnest($2::text[]) AS t(model) ORDER BY model
ON CONFLICT (server, model) DO UPDATE
SET number = quarantines.number + 1, ended_at = NULL
WHERE quarantines.ended_at IS NOT NULL;

-- name: end_quarantines
-- Ends quarantines of a server ($1), each by its model ($2) and number ($3).
UPDATE quarantines q
SET ended_at = now()
FROM unnest($2::text[], $3::bigint[]) AS t(model, number)
WHERE q.server = $1 AND q.model = t.model AND q.number = t.number AND q.ended_at IS NULL;

-- name: list_quarantines
-- Returns all quarantines of a server ($1), also those that are over.
SELECT model, number, ended_at IS NULL AS holds, reload_until IS NOT NULL AS reloads
FROM quarantines
WHERE server = $1
ORDER BY model;

-- name: claim_reloads
-- Claims the reloads of a server's models ($1) for $2 seconds: of those in quarantine, and of those whose reload nobody
-- finished. Returns the models.
UPDATE quarantines
SET reload_until = now() + make_interval(secs => $2::double precision)
WHERE server = $1 AND (reload_until < now() OR reload_until IS NULL AND ended_at IS NULL)
RETURNING model;

-- name: save_reloads
-- Saves for how many seconds ($3) no other dispatcher reloads these models ($2) of a server ($1). NULL: they are loaded.
UPDATE quarantines q
SET reload_until = now() + make_interval(secs => t.seconds)
FROM unnest($2::text[], $3::double precision[]) AS t(model, seconds)
WHERE q.server = $1 AND q.model = t.model;
