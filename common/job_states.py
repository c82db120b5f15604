"""The states of a job. `common.jobs.transitions` says which follow which."""

from enum import StrEnum
from typing import TypeVar, cast

import msgspec

Known = TypeVar("Known", bound=StrEnum)


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


TERMINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.EXPIRED})


def read_text(kind: type[Known], text: str) -> Known:
    """Return the member with this value. A value that a later release wrote is none: it stays the text that it is."""
    try:
        return kind(text)
    except ValueError:
        return cast(Known, text)


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt or a job failed."""

    code: str
    """A stable error code. The reference lists the codes of jobs."""
    message: str
    """A sentence about the error, for people. It may change."""
    retryable: bool
    """Whether another attempt may succeed."""
