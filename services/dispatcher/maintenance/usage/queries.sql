-- Each end of a job is counted once, without a row of its own: a job has the id of the transaction that ended it, and
-- `usage_progress` says before which id the ends are counted. All transactions before the oldest one that is open have
-- ended, so no end can appear among them later. The newest id would not do: an older transaction may commit after it.

-- name: lock_usage_progress
-- Locks and returns up to where ends are counted, with the id of this transaction. Returns nothing while another
-- dispatcher counts.
SELECT counted_before, pg_current_xact_id() AS own_id
FROM usage_progress
FOR UPDATE SKIP LOCKED;

-- name: wait_for_retries
-- Waits for retries that count the ends that they hide: count_before_retry takes this lock, shared. Later retries wait until
-- this transaction ends, so they cannot starve it.
SELECT pg_advisory_xact_lock(1431519559);

-- name: find_usage_bound
-- Returns before which transaction to count, from a given one ($1) on: the oldest that is open. If there are more than $2
-- ends, it returns the one after the transaction of the $2-th.
WITH oldest AS (
  SELECT pg_snapshot_xmin(pg_current_snapshot()) AS id
), last AS (
  SELECT ended_xid FROM jobs
  WHERE generation > 0 AND ended_xid >= $1::xid8 AND ended_xid < (SELECT id FROM oldest)
  ORDER BY ended_xid
  OFFSET $2::integer - 1
  LIMIT 1
)
SELECT coalesce((
    SELECT ended_xid FROM jobs
    WHERE generation > 0 AND ended_xid > (SELECT ended_xid FROM last) AND ended_xid < oldest.id
    ORDER BY ended_xid
    LIMIT 1
  ), oldest.id) AS bound
FROM oldest;

-- name: count_usage
-- Adds the ended jobs of the transactions from $1 to before $2 to the usage of their tenants. Returns the sums, each with
-- how many jobs it has.
WITH sums AS (
  SELECT
    tenant_id, day, model, sum(succeeded) AS succeeded, sum(failed) AS failed, sum(canceled) AS canceled,
    sum(expired) AS expired, sum(inference_seconds) AS inference_seconds, sum(bytes_in) AS bytes_in,
    sum(bytes_out) AS bytes_out, sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
    sum(reused) AS reused, count(*) AS jobs
  FROM ended_usage
  WHERE ended_xid >= $1::xid8 AND ended_xid < $2::xid8
  GROUP BY tenant_id, day, model
), added AS (
  INSERT INTO usage AS u (tenant_id, day, model, succeeded, failed, canceled, expired, inference_seconds, bytes_in,
                          bytes_out, prompt_tokens, completion_tokens, reused)
  SELECT tenant_id, day, model, succeeded, failed, canceled, expired, inference_seconds, bytes_in, bytes_out,
         prompt_tokens, completion_tokens, reused
  FROM sums
  ON CONFLICT (tenant_id, day, model) DO UPDATE
  SET succeeded = u.succeeded + excluded.succeeded,
      failed = u.failed + excluded.failed,
      canceled = u.canceled + excluded.canceled,
      expired = u.expired + excluded.expired,
      inference_seconds = u.inference_seconds + excluded.inference_seconds,
      bytes_in = u.bytes_in + excluded.bytes_in,
      bytes_out = u.bytes_out + excluded.bytes_out,
      prompt_tokens = u.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = u.completion_tokens + excluded.completion_tokens,
      reused = u.reused + excluded.reused
)
SELECT tenant_id, model, succeeded, failed, canceled, expired, inference_seconds, bytes_in::bigint, bytes_out::bigint,
       prompt_tokens::bigint, completion_tokens::bigint, reused::bigint, jobs
FROM sums;

-- name: set_usage_progress
-- Remembers before which transaction ($1) the ends are counted.
UPDATE usage_progress SET counted_before = $1::xid8;
