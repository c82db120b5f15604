"""Response bodies of the usage call."""

from typing import Annotated

import msgspec
from msgspec import Meta


class EndedJobs(msgspec.Struct, frozen=True):
    """How many jobs ended, by status. A job that is retried ends again, and counts again.

    A job that is retried within seconds of its end counts only with the next one.
    """

    succeeded: int
    failed: int
    canceled: int
    expired: int


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """What the tenant used of one model on one day (UTC)."""

    day: Annotated[str, Meta(extra_json_schema={"format": "date"})]
    model: str
    jobs: EndedJobs
    inference_seconds: float
    bytes_in: int
    bytes_out: int


class UsagePage(msgspec.Struct, frozen=True):
    items: list[UsageView]
    next_cursor: str | None
