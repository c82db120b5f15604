-- name: forget_models
-- Makes the models of lost sessions ($1) count as not ready.
UPDATE served_models SET session = NULL, updated_at = '-infinity' WHERE session = ANY($1::bigint[]);
