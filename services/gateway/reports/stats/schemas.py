"""Response bodies of the statistics."""

from typing import Annotated

import msgspec
from msgspec import Meta

from common.job_states import Priority
from common.views.job import Time
from services.gateway.models.schemas import Percentiles

Count = Annotated[int, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0)]


class WindowView(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that ended within a time."""

    seconds: Rate
    """The time that is covered: up to now. It is shorter than the name says after over 20,000 ends of your jobs."""
    ended: Count
    """How many jobs ended, in whatever way."""
    failed: Count
    """How many of these failed."""
    hits: Count
    """How many of these took the result of another job at their submit. So an inference was saved."""
    joins: Count
    """How many of these took the result of another job after they had waited for it."""
    ended_per_minute: Rate
    """How many jobs ended a minute."""
    failed_per_minute: Rate
    """How many of these failed a minute."""
    queue_ms: Percentiles
    """How long jobs that succeeded waited for their last attempt."""
    inference_ms: Percentiles
    """How long their inference took."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """Your jobs of one model and priority."""

    model: str
    """The name of the model."""
    priority: Priority
    """The priority of the jobs."""
    waiting: Count
    """How many jobs wait, without scheduled ones. At most a million of both are counted, the oldest first."""
    scheduled: Count
    """How many jobs wait for a time: their `run_at`, or that of their next attempt."""
    running: Count
    """How many jobs run."""
    oldest_waiting_at: Time | None
    """Since when the oldest of the waiting jobs waits; null without one."""
    last_5_minutes: WindowView
    """What ended in the last 5 minutes."""
    last_60_minutes: WindowView
    """What ended in the last 60 minutes."""


class StatsView(msgspec.Struct, frozen=True):
    """Your jobs in numbers."""

    at: Time
    """When the numbers were read."""
    items: list[QueueView]
    """Each model and priority with jobs that wait, run or ended in the last hour, in this order."""


class MinuteView(msgspec.Struct, frozen=True, kw_only=True):
    """Your jobs in a minute."""

    at: Time
    """When the minute began."""
    ended: Count
    """How many jobs ended within it, in whatever way."""
    failed: Count
    """How many of these failed."""
    waiting: Count
    """How many jobs waited at its end, without scheduled ones. At most a million that wait now are counted."""
    running: Count
    """How many jobs ran at its end."""


class HourView(msgspec.Struct, frozen=True):
    """Your jobs of the last hour by minute."""

    at: Time
    """When the numbers were read."""
    items: list[MinuteView]
    """The last 60 minutes, oldest first. The last one is not over. There are fewer after over 200,000 ends of your jobs
    in an hour: the latest ones."""
