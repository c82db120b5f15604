-- Of the jobs that may be what kills Triton (MAX_INTERRUPTIONS in retry.py) one runs at a time. A claim looks for another
-- one first, but two claims at once see none: the later one fails here, and looks again.
CREATE UNIQUE INDEX jobs_one_suspect ON jobs ((lease_until IS NOT NULL))
  WHERE lease_until IS NOT NULL AND interruptions >= 3;
