"""The life of a job: every statement that writes `jobs`, one module a verb."""
