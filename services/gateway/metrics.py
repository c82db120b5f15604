"""The gateway's own metrics; those of requests are in http/telemetry.py."""

from prometheus_client import Counter, Gauge

jobs_submitted = Counter("charonia_jobs_submitted", "Jobs accepted.", ["model", "priority"])
waiters = Gauge("charonia_waiters", "Requests, streams and WebSockets that wait for a job now.")
