-- name: roll_up_usage
-- Adds up to $1 entries to the usage of their tenants, and removes them. Returns the sums, each with its entries. Rows are
-- added in one order, so that two dispatchers never deadlock.
WITH entries AS (
  DELETE FROM usage_entries
  WHERE ctid = ANY(ARRAY(SELECT ctid FROM usage_entries LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING *
), sums AS (
  SELECT tenant_id, day, model, sum(succeeded) AS succeeded, sum(failed) AS failed, sum(canceled) AS canceled,
         sum(expired) AS expired, sum(inference_seconds) AS inference_seconds, sum(bytes_in) AS bytes_in,
         sum(bytes_out) AS bytes_out, count(*) AS entries
  FROM entries
  GROUP BY tenant_id, day, model
), added AS (
  INSERT INTO usage AS u (tenant_id, day, model, succeeded, failed, canceled, expired, inference_seconds, bytes_in,
                          bytes_out)
  SELECT tenant_id, day, model, succeeded, failed, canceled, expired, inference_seconds, bytes_in, bytes_out
  FROM sums
  ORDER BY tenant_id, day, model
  ON CONFLICT (tenant_id, day, model) DO UPDATE
  SET succeeded = u.succeeded + excluded.succeeded,
      failed = u.failed + excluded.failed,
      canceled = u.canceled + excluded.canceled,
      expired = u.expired + excluded.expired,
      inference_seconds = u.inference_seconds + excluded.inference_seconds,
      bytes_in = u.bytes_in + excluded.bytes_in,
      bytes_out = u.bytes_out + excluded.bytes_out
)
SELECT tenant_id, model, succeeded::bigint, failed::bigint, canceled::bigint, expired::bigint, inference_seconds,
       bytes_in::bigint, bytes_out::bigint, entries
FROM sums;
