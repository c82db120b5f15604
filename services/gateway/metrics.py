"""What the gateway counts, beside the HTTP metrics of Litestar's plugin."""

from prometheus_client import Counter

jobs_submitted = Counter("charonia_jobs_submitted", "Jobs accepted.", ["model", "priority"])
