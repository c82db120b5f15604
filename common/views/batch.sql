-- name: count_jobs
-- Count the jobs of batches ($1) by state.
SELECT batch_id, status, count(*) AS jobs FROM jobs WHERE batch_id = ANY($1::uuid[]) GROUP BY batch_id, status;
