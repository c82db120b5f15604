"""What the dispatcher counts."""

from prometheus_client import Counter, Gauge, Histogram

jobs_ended = Counter("charonia_jobs_ended", "Jobs that reached a terminal state here.", ["model", "status"])
stale_messages = Counter("charonia_stale_messages", "Messages whose job could not be claimed: doubled, or too late.")
stale_results = Counter("charonia_stale_results", "Ends of attempts that came too late: the claim was lost.")
jobs_purged = Counter("charonia_jobs_purged", "Ended jobs removed because of their age.")
slots_used = Gauge("charonia_slots_used", "Inferences under way.", ["model"])
slots_limit = Gauge("charonia_slots_limit", "Inferences that may be under way at a time.", ["model"])
inference_seconds = Histogram(
    "charonia_inference_seconds",
    "Time of one attempt on Triton.",
    ["model"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800),
)
