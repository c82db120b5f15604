"""A trace as it is answered."""

from typing import Literal

import msgspec

from common.job_states import Status
from common.views.job import Time

Service = Literal["gateway", "dispatcher", "triton", "notifier"]


class SpanView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the job's life. A span belongs to the last one before it of less `depth`."""

    name: str
    """What happened: `queued` or `attempt 1`, for example."""
    service: Service
    """Who did it, or who is waited for."""
    depth: int
    """0: the job; 1: its parts; 2: the parts of these."""
    at_ms: float
    """When it began, in milliseconds after the submit."""
    took_ms: float | None
    """How long it took, in milliseconds; null while it goes on."""
    started_at: Time
    """When it began."""
    finished_at: Time | None
    """When it ended; null while it goes on."""
    failed: bool
    """Whether it failed."""
    detail: str | None
    """How it ended, or what state it is in."""


class TraceView(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of a job: accepted, each wait, each attempt, each delivery."""

    job_id: str
    """The id of the job."""
    trace_id: str
    """The id of the job's trace, as in W3C Trace Context."""
    status: Status
    """The state of the job."""
    spans: list[SpanView]
    """The parts of the job's life: each span before its parts, else in the order of time."""
    truncated: bool
    """Whether the oldest attempts or deliveries are left out."""
