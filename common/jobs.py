"""The states of a job and the legal transitions. Pure."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta


class Status(StrEnum):
    """The states of a job."""

    QUEUED = "queued"
    PROCESSING = "processing"
    CANCELING = "canceling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"


class Priority(StrEnum):
    """The priorities, highest first: the order in which a free slot takes jobs."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.PROCESSING, Status.CANCELED, Status.EXPIRED}),
    Status.PROCESSING: frozenset({Status.QUEUED, Status.CANCELING, Status.SUCCEEDED, Status.FAILED}),
    Status.CANCELING: frozenset({Status.CANCELED, Status.SUCCEEDED, Status.FAILED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset({Status.QUEUED}),  # only when the client retries the job
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
JOB_EVENT_TYPES = tuple(each for each in EVENT_TYPES if each.startswith("job."))
JobEventType = Annotated[str, Meta(extra_json_schema={"enum": [*JOB_EVENT_TYPES]})]


def number_event(event_type: str, claim: int) -> int:
    """Return the place of an event among those of its job, by the job's claim. Later events have greater numbers.

    A claim has two: its start and the job's end. An end before the first claim is 0.
    """
    return 2 * claim - (event_type == "job.started")


def list_patterns(event_type: str) -> list[str]:
    """Return the patterns that match an event type. `*` stands for one word, or alone for every type."""
    first, second = event_type.split(".")
    return [event_type, f"{first}.*", f"*.{second}", "*.*", "*"]


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt or a job failed."""

    code: str
    """A stable error code. The reference lists the codes of jobs."""
    message: str
    """A sentence about the error, for people. It may change."""
    retryable: bool
    """Whether another attempt may succeed."""
