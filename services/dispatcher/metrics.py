"""What the dispatcher counts."""

from prometheus_client import Counter, Gauge, Histogram

from common.jobs import TERMINAL
from common.metrics import jobs_ended
from services.dispatcher.triton import ERRORS

ATTEMPT_RESULTS = ("succeeded", "failed", "canceled", "returned")  # as in job_attempts; returned ones do not count

attempts = Counter(
    "charonia_attempts", "Attempts that were written down here, by what they came to.", ["model", "result"]
)
inference_errors = Counter("charonia_inference_errors", "Attempts that Triton failed, by error.", ["model", "code"])
leases_lapsed = Counter("charonia_leases_lapsed", "Running jobs found without their dispatcher.")
stale_messages = Counter("charonia_stale_messages", "Messages whose job could not be claimed: doubled, or too late.")
stale_results = Counter("charonia_stale_results", "Ends of attempts that came too late: the claim was lost.")
jobs_purged = Counter("charonia_jobs_purged", "Ended jobs removed because of their age.")
triton_ready = Gauge("charonia_triton_ready", "Whether Triton answers and is live.")
model_ready = Gauge("charonia_model_ready", "Whether Triton can run a version of the model.", ["model"])
slots_used = Gauge("charonia_slots_used", "Inferences under way.", ["model"])
slots_limit = Gauge("charonia_slots_limit", "Inferences that may be under way at a time.", ["model"])
queue_seconds = Histogram(
    "charonia_queue_seconds",
    "Time from when a job could run to when an attempt began.",
    ["model", "priority"],
    buckets=(0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200),
)
inference_seconds = Histogram(
    "charonia_inference_seconds",
    "Time of one attempt on Triton.",
    ["model"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800),
)


def prepare(model: str) -> None:
    """Begins a model's counters at 0: an increase from nothing is none to Prometheus."""
    slots_used.labels(model)
    for status in TERMINAL:
        jobs_ended.labels(model, status)
    for code in ERRORS:
        inference_errors.labels(model, code)
    for result in ATTEMPT_RESULTS:
        attempts.labels(model, result)
