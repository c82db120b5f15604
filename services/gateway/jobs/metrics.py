"""The metrics of submitted jobs."""

from prometheus_client import Counter

submitted = Counter("charonia_jobs_submitted", "Jobs accepted.", ["model", "priority"])
