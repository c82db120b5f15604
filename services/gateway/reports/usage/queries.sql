-- name: list_usage
-- Returns a page of a tenant's ($1) usage, newest day first: before a place (day $2, model $3), from a day ($4) on. Filters
-- by model ($5).
SELECT day, model, succeeded, failed, canceled, expired, inference_seconds, bytes_in, bytes_out,
       prompt_tokens, completion_tokens, reused
FROM usage
WHERE tenant_id = $1
  AND (day, model) < ($2::date, $3::text)
  AND day >= $4
  AND ($5::text IS NULL OR model = $5)
ORDER BY day DESC, model DESC
LIMIT $6;
