-- What happened to a job beside its attempts and its ends, in order of (claim, number): a response of a streaming model
-- as it came (1, 2, …), a cancellation that was asked for, a new beginning.
CREATE TABLE job_steps (
  job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
  claim bigint NOT NULL,
  number integer NOT NULL CHECK (number >= 0),
  type text NOT NULL CHECK (type IN ('job.output', 'job.canceling', 'job.queued')),
  created_at timestamptz NOT NULL DEFAULT now(),
  outputs bytea, -- the JSON list of the API
  PRIMARY KEY (job_id, claim, number),
  CHECK ((outputs IS NULL) = (type <> 'job.output'))
);
ALTER TABLE job_steps ALTER outputs SET COMPRESSION lz4;

-- The claim under which a job ended with this event.
ALTER TABLE events ADD claim bigint;
