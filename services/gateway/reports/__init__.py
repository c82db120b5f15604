"""What users read to see how it goes: statistics, usage and the trace of a job."""
