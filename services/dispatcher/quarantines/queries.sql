-- name: begin_quarantines
-- Begins the quarantine of models ($2) of a server ($1), except for those that are in quarantine already. Forgets those
-- that have been over for a day.
WITH forgotten AS (
  DELETE FROM quarantines WHERE ended_at < now() - interval '1 day' AND NOT (server = $1 AND model = ANY($2::text[]))
)
INSERT INTO quarantines (server, model)
SELECT $1, model FROM unnest($2::text[]) AS t(model) ORDER BY model
ON CONFLICT (server, model) DO UPDATE
SET number = quarantines.number + 1, ended_at = NULL, reloaded_at = NULL
WHERE quarantines.ended_at IS NOT NULL;

-- name: end_quarantines
-- Ends quarantines of a server ($1), each by its model ($2) and number ($3).
UPDATE quarantines q
SET ended_at = now()
FROM unnest($2::text[], $3::bigint[]) AS t(model, number)
WHERE q.server = $1 AND q.model = t.model AND q.number = t.number AND q.ended_at IS NULL;

-- name: list_quarantines
-- Returns all quarantines of a server ($1), also those that are over.
SELECT model, number, ended_at IS NULL AS holds FROM quarantines WHERE server = $1 ORDER BY model;

-- name: claim_reloads
-- Claims the reload of a server's models ($1) in quarantine. Another dispatcher may try after a minute. Returns the models.
UPDATE quarantines
SET reloaded_at = now()
WHERE server = $1 AND ended_at IS NULL AND (reloaded_at IS NULL OR reloaded_at < now() - interval '1 minute')
RETURNING model;
