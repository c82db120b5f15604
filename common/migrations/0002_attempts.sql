-- What each attempt at a job came to, written with its end.
CREATE TABLE job_attempts (
  job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
  claim bigint NOT NULL,
  attempt integer NOT NULL, -- which of the job's attempts it was; the same again where one was given back
  model text NOT NULL,
  worker text NOT NULL,
  started_at timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  status text NOT NULL CHECK (status IN ('succeeded', 'failed', 'canceled', 'returned')), -- returned: it does not count
  error_code text,
  error_message text,
  PRIMARY KEY (job_id, claim)
);

CREATE INDEX jobs_dead ON jobs (tenant_id, id) WHERE status = 'failed'; -- what an operator lists and replays
CREATE INDEX jobs_by_end ON jobs (finished_at) WHERE finished_at IS NOT NULL; -- what is old enough to be removed
