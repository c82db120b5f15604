"""What the gateway counts, beside the requests (observe.py)."""

from prometheus_client import Counter, Gauge

jobs_submitted = Counter("charonia_jobs_submitted", "Jobs accepted.", ["model", "priority"])
watchers = Gauge("charonia_watchers", "Requests, streams and WebSockets that wait for a job at the moment.")
