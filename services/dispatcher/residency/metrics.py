"""The metrics of what a Triton holds.

Only the elected dispatcher of the Triton counts. Any dispatcher counts the models that it reloads after a quarantine.
"""

from prometheus_client import Counter, Gauge, Histogram

from services.dispatcher.residency.loads import Loaded
from services.dispatcher.residency.state import Phase
from services.dispatcher.residency.store import Residency

loads = Counter(
    "charonia_model_loads",
    "Loads of models that began. `why` is jobs, kept, unknown (to learn what it declares), or other (of an operator, "
    "or after a quarantine).",
    ["model", "why"],
)
load_failures = Counter("charonia_model_load_failures", "Loads of models that failed.", ["model"])
swaps = Counter(
    "charonia_model_swaps",
    "Unloads of a model to make room for another one, or to load it again because it was in quarantine.",
    ["model"],
)
load_seconds = Histogram(
    "charonia_model_load_seconds",
    "Time that a load took, if it worked.",
    ["model"],
    buckets=(0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600),
)
memory_bytes = Gauge(
    "charonia_model_memory_bytes",
    "Bytes of Triton that a model counts for, also because of unloads that never end. 0: it is not loaded.",
    ["model"],
)
load_failing = Gauge(
    "charonia_model_load_failing",
    "Whether a model is not loaded because its last load failed, or because it is larger than the memory for models.",
    ["model"],
)


def note_ended(loaded: Loaded) -> None:
    """Count a load that has ended."""
    if loaded.error is None:
        load_seconds.labels(loaded.name).observe(loaded.seconds)
    else:
        load_failures.labels(loaded.name).inc()


def note_change(before: Residency, now: Residency, *, is_own: bool) -> None:
    """Count what became of a model. `is_own`: this process loaded it, or tried to."""
    swaps.labels(now.name).inc(before.for_model is not None and now.phase is Phase.ABSENT)
    memory_bytes.labels(now.name).set(now.lost + (0 if now.phase is Phase.ABSENT else now.memory or 0))
    load_failing.labels(now.name).set(now.phase is Phase.ABSENT and now.reason is not None)
    if now.loaded_at != before.loaded_at and now.loaded_at is not None and not is_own:
        loads.labels(now.name, "other").inc()


def note_reload(model: str) -> None:
    """Count that a model was unloaded because it was in quarantine. That costs what a swap costs."""
    swaps.labels(model).inc()


def forget() -> None:
    """Forget what another process knows better from now on."""
    memory_bytes.clear()
    load_failing.clear()
