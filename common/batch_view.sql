-- name: count_jobs
-- How many jobs of these batches ($1) there are in each state.
SELECT batch_id, status, count(*) AS jobs FROM jobs WHERE batch_id = ANY($1::uuid[]) GROUP BY batch_id, status;
