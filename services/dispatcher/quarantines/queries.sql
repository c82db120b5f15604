-- name: begin_quarantines
-- Begins the quarantine of models ($2) of a server ($1), with their counts of executions ($3) if they are known, except
-- for those that are in quarantine already. Forgets those that have been over for a day.
WITH forgotten AS (
  DELETE FROM quarantines WHERE ended_at < now() - interval '1 day' AND NOT (server = $1 AND model = ANY($2::text[]))
)
INSERT INTO quarantines (server, model, executions)
SELECT $1, model, executions FROM unnest($2::text[], $3::bigint[]) AS t(model, executions) ORDER BY model
ON CONFLICT (server, model) DO UPDATE
SET number = quarantines.number + 1, began_at = now(), ended_at = NULL, executions = excluded.executions
WHERE quarantines.ended_at IS NOT NULL;

-- name: end_quarantines
-- Ends quarantines of a server ($1), each by its model ($2) and number ($3). A reload is over too, unless the model is
-- unloaded ($4): then somebody must still load it.
UPDATE quarantines q
SET ended_at = now(), reload_until = CASE WHEN t.unloaded THEN q.reload_until END
FROM unnest($2::text[], $3::bigint[], $4::boolean[]) AS t(model, number, unloaded)
WHERE q.server = $1 AND q.model = t.model AND q.number = t.number AND q.ended_at IS NULL;

-- name: save_executions
-- Saves the counts of executions ($4) of models ($2) of a server ($1) for the quarantines with these numbers ($3). The
-- first count stays.
UPDATE quarantines q
SET executions = t.executions
FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS t(model, number, executions)
WHERE q.server = $1 AND q.model = t.model AND q.number = t.number AND q.executions IS NULL;

-- name: list_quarantines
-- Returns all quarantines of a server ($1), also those that are over.
SELECT model, number, ended_at IS NULL AS holds, reload_until IS NOT NULL AS reloads, executions
FROM quarantines
WHERE server = $1
ORDER BY model;

-- name: claim_reloads
-- Claims the reloads of a server's models ($1) for $2 seconds: of those in quarantine, and of those whose reload nobody
-- finished. A dispatcher leaves a new quarantine to those that saw the stall themselves ($3): they know first if the
-- server was started again meanwhile. Returns the models.
UPDATE quarantines
SET reload_until = now() + make_interval(secs => $2::double precision)
WHERE server = $1
  AND (
    reload_until < now()
    OR reload_until IS NULL AND ended_at IS NULL
      AND (model = ANY($3::text[]) OR began_at < now() - make_interval(secs => $2::double precision))
  )
RETURNING model;

-- name: save_reloads
-- Saves for how many seconds ($3) no other dispatcher reloads these models ($2) of a server ($1). NULL: they are loaded.
UPDATE quarantines q
SET reload_until = now() + make_interval(secs => t.seconds)
FROM unnest($2::text[], $3::double precision[]) AS t(model, seconds)
WHERE q.server = $1 AND q.model = t.model;
