"""HTTP routes of a tenant's statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from litestar import Request, Router, get
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation

from common.job_states import Priority
from common.views.job import format_optional_time, format_time
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.problems import ANY_CALL, document
from services.gateway.models.schemas import Percentiles
from services.gateway.reports.stats.reader import Hour, Stats, StatsReader
from services.gateway.reports.stats.schemas import HourView, MinuteView, QueueView, StatsView, WindowView
from services.gateway.reports.stats.store import Ended, Queue, Waiting

ORDER = {
    priority: place for place, priority in enumerate(Priority)
}  # highest first; those of a later release come last


@dataclass(frozen=True)
class StatsServices:
    reader: StatsReader


Services = NamedDependency[SkipValidation[StatsServices]]


@get(
    "/stats",
    summary="Get your jobs in numbers",
    operation_id="get_stats",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def get_stats(request: Request[Key, Any, Any], services: Services) -> StatsView:
    """Return what waits, runs and ended, by model and priority.

    The numbers are up to a second old, and up to 30 s with very many jobs.
    """
    return view_stats(await services.reader.read(request.user.tenant_id))


@get(
    "/stats/minutes",
    summary="Get your jobs of the last hour by minute",
    operation_id="get_stats_by_minute",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def get_stats_by_minute(request: Request[Key, Any, Any], services: Services) -> HourView:
    """Return how many jobs ended and failed in each minute, and how many waited and ran at its end.

    A job waits since the time its last attempt was due. The numbers are up to a second old, and up to 30 s with very
    many jobs.
    """
    return view_hour(await services.reader.read_hour(request.user.tenant_id))


def view_hour(hour: Hour) -> HourView:
    minutes = [
        MinuteView(at=format_time(at), ended=ended, failed=failed, waiting=waiting, running=running)
        for at, ended, failed, waiting, running in hour.minutes
    ]
    return HourView(format_time(hour.at), minutes)


def view_stats(stats: Stats) -> StatsView:
    """Return the numbers of all queues, by model and then by priority, highest first. Pure."""
    queues = {*stats.waiting, *stats.running, *(queue for queue, _ in stats.ended)}
    ordered = sorted(queues, key=lambda queue: (queue.model, ORDER.get(queue.priority, len(ORDER))))
    return StatsView(format_time(stats.at), [view_queue(queue, stats) for queue in ordered])


def view_queue(queue: Queue, stats: Stats) -> QueueView:
    waiting = stats.waiting.get(queue, Waiting(0, 0, None))
    return QueueView(
        model=queue.model,
        priority=queue.priority,
        waiting=waiting.jobs,
        scheduled=waiting.scheduled,
        running=stats.running.get(queue, 0),
        oldest_waiting_at=format_optional_time(waiting.oldest_at),
        last_5_minutes=view_window(find_window(queue, 5, stats)),
        last_60_minutes=view_window(find_window(queue, 60, stats)),
    )


def find_window(queue: Queue, minutes: int, stats: Stats) -> Ended:
    """Return what ended of a queue. Where nothing did, it covers what the other queues cover."""
    found = stats.ended.get((queue, minutes))
    if found is None:
        covered = next((each.covered for (_, of), each in stats.ended.items() if of == minutes), 60.0 * minutes)
        return Ended(covered, 0, 0, 0, 0, None, None)
    return found


def view_window(ended: Ended) -> WindowView:
    minutes = max(ended.covered, 1.0) / 60
    return WindowView(
        seconds=round(ended.covered, 1),
        ended=ended.jobs,
        failed=ended.failed,
        hits=ended.hits,
        joins=ended.joins,
        ended_per_minute=round(ended.jobs / minutes, 2),
        failed_per_minute=round(ended.failed / minutes, 2),
        queue_ms=view_percentiles(ended.queue_ms),
        inference_ms=view_percentiles(ended.inference_ms),
    )


def view_percentiles(values: Sequence[float | None] | None) -> Percentiles:
    return Percentiles(*(None if value is None else round(value) for value in values or (None, None)))


def make_router(services: StatsServices) -> Router:
    return Router(
        "/",
        route_handlers=[get_stats, get_stats_by_minute],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Usage"],
    )
