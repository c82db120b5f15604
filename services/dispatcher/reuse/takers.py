"""Who of a group takes the result of its twin, and what such a job looks like then. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from opentelemetry.trace import Link

from common import ids, job_spans
from common.event_types import number_event
from common.job_states import Priority, Status
from common.jobs.new_event import NewEvent
from common.jobs.take_results import Joiner, TakenResult
from common.jobs.twins import FoundTwin, Promotion
from common.reuse.decisions import Loads, Wish, may_take
from common.telemetry import tracing
from common.views.job import JobUrls, render_event

PAGE_JOBS = 100
PAGE_BYTES = 8 * 1024 * 1024  # of their events
EVENT_BYTES = 4096  # without outputs
SUCCEEDED = "job.succeeded"
PRIORITIES = tuple(Priority)  # highest first


def measure_page(twin: FoundTwin | None, groups: int = 1) -> int:
    """Return how many jobs of a group take a result together with those of other groups, at most."""
    size = EVENT_BYTES if twin is None else EVENT_BYTES + len(twin.outputs or b"")
    return max(1, min(PAGE_JOBS, PAGE_BYTES // size) // groups)


class Taker(NamedTuple):
    """A job as it is once it has taken the result of its twin."""

    job: Joiner
    twin: FoundTwin


def choose_takers(twin: FoundTwin | None, joiners: Sequence[Joiner], loads: Loads, at: datetime) -> list[Taker]:
    """Return those of the jobs that may take the result of their twin now. `loads` are those of its model."""
    if twin is None or twin.state is None:
        return []
    return [
        Taker(finish(job, twin, at), twin)
        for job in joiners
        if may_take(Wish(job.model, job.fallback_model, job.reuse_seconds, job.created_at), twin.state, loads)
    ]


def promote_first(twin: FoundTwin | None, joiners: Sequence[Joiner]) -> Promotion:
    """Return how the oldest of the jobs becomes the twin: with the highest priority of them all."""
    known = [PRIORITIES.index(job.priority) for job in joiners if job.priority in PRIORITIES]
    priority = PRIORITIES[min(known)] if known else joiners[0].priority
    before, claim = (None, 0) if twin is None else (twin.job_id, twin.claim)
    return Promotion(joiners[0].id, before, priority, claim)


def finish(job: Joiner, twin: FoundTwin, at: datetime) -> Joiner:
    """Return a job as it is once it has taken the result of its twin."""
    assert twin.state is not None, "the twin has a result"
    return msgspec.structs.replace(
        job,
        status=Status.SUCCEEDED,
        model=twin.state.model,
        version=twin.state.version,
        claim=max(job.claim, twin.claim),
        finished_at=at,
        error_code=None,
        scheduled_at=None,
        reused_from=twin.job_id,
    )


def end_taker(taker: Taker, urls: JobUrls) -> TakenResult:
    """Return the end of a job. The span of its wait links the twin's trace."""
    job, twin = taker
    assert job.finished_at is not None, "the job is finished"
    origin = tracing.parse(twin.traceparent)
    links = [] if origin is None else [Link(origin)]
    with job_spans.start_span_at(job_spans.queued_since(job), "queued", job, links) as trace:
        job_spans.set_outcome(job.status)
    sequence = number_event(SUCCEEDED, job.claim)
    body = render_event(
        job,
        urls,
        SUCCEEDED,
        job.finished_at,
        twin.outputs,
        sequence=sequence,
        has_large_outputs=twin.has_large_outputs,
    )
    event = NewEvent(ids.new(), SUCCEEDED, sequence, body, trace)
    return TakenResult(job.id, twin.job_id, job.claim, job.finished_at, event)
