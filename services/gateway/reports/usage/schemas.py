"""Response bodies of the usage call."""

from typing import Annotated

import msgspec
from msgspec import Meta


class EndedJobs(msgspec.Struct, frozen=True):
    """How many jobs ended, by status. A job that is retried ends again, and counts again."""

    succeeded: int
    """The jobs that ended as `succeeded`."""
    failed: int
    """The jobs that ended as `failed`."""
    canceled: int
    """The jobs that ended as `canceled`."""
    expired: int
    """The jobs that ended as `expired`."""
    reused: int
    """The jobs that took the result of another job. They count neither as `succeeded` nor in seconds or tokens."""


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """What the tenant used of one model on one day."""

    day: Annotated[str, Meta(extra_json_schema={"format": "date"})]
    """The day in UTC on which the jobs ended."""
    model: str
    """The name of the model."""
    jobs: EndedJobs
    """The jobs that ended."""
    inference_seconds: float
    """How long the successful attempts took together."""
    bytes_in: int
    """The inputs of the ended jobs in bytes: packed tensors, parameters and metadata."""
    bytes_out: int
    """The outputs of the jobs, in bytes of JSON and of files."""
    prompt_tokens: int
    """The tokens that went into a language model, as it counts them; 0 if the model does not tell."""
    completion_tokens: int
    """The tokens that a language model wrote, as it counts them; 0 if the model does not tell."""


class UsagePage(msgspec.Struct, frozen=True):
    """A page of usage."""

    items: list[UsageView]
    """The usage by day and model, newest day first."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""
