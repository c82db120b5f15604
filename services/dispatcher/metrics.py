"""The dispatcher's metrics."""

from prometheus_client import Counter, Gauge, Histogram

from common.job_states import TERMINAL
from common.telemetry.metrics import PIPELINES, jobs_ended
from services.dispatcher.triton.errors import ERROR_CODES

ATTEMPT_RESULTS = ("succeeded", "failed", "canceled", "returned")  # as in job_attempts; "returned" ones do not count

attempts = Counter("charonia_attempts", "Attempts that this process recorded, by result.", ["model", "result"])
inference_errors = Counter("charonia_inference_errors", "Attempts that failed on Triton, by error.", ["model", "code"])
leases_lapsed = Counter("charonia_leases_lapsed", "Running jobs that were taken from a lost dispatcher.")
tokens = Counter(
    "charonia_tokens",
    "Tokens of jobs that succeeded, as language models count them. `kind` is prompt or completion.",
    ["model", "kind"],
)
wake_ups_repeated = Counter("charonia_wake_ups_repeated", "Wake-ups for jobs that waited without a message.")
stale_messages = Counter("charonia_stale_messages", "Duplicate or late messages that found no job to claim.")
stale_results = Counter("charonia_stale_results", "Results that came too late because the claim was lost.")
jobs_removed = Counter(
    "charonia_jobs_removed",
    "Ended jobs that their own or their tenant's retention removed. What `CHARONIA_RETENTION` removes does not count.",
)
tenant_jobs = Counter(
    "charonia_tenant_jobs",
    "Ends of jobs, by tenant, if turned on. `reused`: with the result of another job.",
    ["tenant", "model", "status"],
)
tenant_inference_seconds = Counter(
    "charonia_tenant_inference_seconds", "Duration of attempts that succeeded, if turned on.", ["tenant", "model"]
)
tenant_bytes = Counter(
    "charonia_tenant_bytes",
    "Bytes of inputs and outputs of ended jobs, if turned on.",
    ["tenant", "model", "direction"],
)
tenant_tokens = Counter(
    "charonia_tenant_tokens",
    "Tokens of jobs that succeeded, as language models count them, if turned on.",
    ["tenant", "model", "kind"],
)
triton_ready = Gauge("charonia_triton_ready", "Whether Triton answers and is live.")
model_ready = Gauge("charonia_model_ready", "Whether Triton can run a version of the model.", ["model"])
model_hits = Counter(
    "charonia_model_residency_hits",
    "Jobs that started, and whose model was ready since before they could run.",
    ["model"],
)
model_circuit_open = Gauge(
    "charonia_model_circuit_open", "Whether the model runs one job at a time until it answers.", ["model"]
)
slots_used = Gauge("charonia_slots_used", "Inferences that run now.", ["model"])
slots_limit = Gauge("charonia_slots_limit", "Inferences that may run at once.", ["model"])
input_bytes = Gauge("charonia_input_bytes", "Bytes of the inputs of running jobs, and of claims under way.")
output_bytes = Gauge("charonia_output_bytes", "Bytes of large outputs on their way to the object store.")
queue_seconds = Histogram(
    "charonia_queue_seconds",
    "Time from when a job could run until its attempt began.",
    ["model", "priority"],
    buckets=(0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200),
)
inference_seconds = Histogram(
    "charonia_inference_seconds",
    "Duration of one attempt on Triton.",
    ["model"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800),
)


def init_ends(model: str) -> None:
    """Create the counters of ended jobs at 0: Prometheus does not see an increase of a series that did not exist."""
    for status in TERMINAL:
        jobs_ended.labels(model, status)


init_ends(PIPELINES)


def init_model(model: str) -> None:
    """Create a model's counters at 0."""
    slots_used.labels(model)
    model_hits.labels(model)
    init_ends(model)
    for code in ERROR_CODES:
        inference_errors.labels(model, code)
    for result in ATTEMPT_RESULTS:
        attempts.labels(model, result)


def count_tokens(model: str, prompt: int | None, completion: int | None) -> None:
    """Count the tokens of a job, as far as its model told them."""
    if prompt is not None:
        tokens.labels(model, "prompt").inc(prompt)
    if completion is not None:
        tokens.labels(model, "completion").inc(completion)
