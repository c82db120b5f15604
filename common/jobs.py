"""The states of a job and the legal ways between them. Pure."""

from enum import StrEnum

import msgspec


class Status(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    CANCELING = "canceling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"


class Priority(StrEnum):
    """Highest first: the order in which a free slot looks for work."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.PROCESSING, Status.CANCELED, Status.EXPIRED}),
    Status.PROCESSING: frozenset({Status.QUEUED, Status.CANCELING, Status.SUCCEEDED, Status.FAILED}),
    Status.CANCELING: frozenset({Status.CANCELED, Status.SUCCEEDED, Status.FAILED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset({Status.QUEUED}),  # only by the client's own retry
    Status.CANCELED: frozenset({Status.QUEUED}),
    Status.EXPIRED: frozenset({Status.QUEUED}),
}
TERMINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.EXPIRED})
TERMINAL_EVENTS = tuple(f"job.{status}" for status in Status if status in TERMINAL)
# Every type of event in the contract.
EVENT_TYPES = (
    *("job.started", *TERMINAL_EVENTS, "batch.completed"),
    *("webhook.test", "webhook.disabled", "delivery.exhausted"),
)


def list_patterns(event_type: str) -> list[str]:
    """The patterns that match a type of two words; `*` stands for one word, and alone for all."""
    first, second = event_type.split(".")
    return [event_type, f"{first}.*", f"*.{second}", "*.*", "*"]


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt, or the job, failed: a stable code, a sentence, and whether trying again may help."""

    code: str
    message: str
    retryable: bool
