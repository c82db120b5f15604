"""Builds jobs that end at their submit, with the result of their twin. Pure."""

from datetime import timedelta
from typing import NamedTuple

from opentelemetry.trace import get_current_span

from common import ids
from common.event_types import number_event
from common.job_states import Status
from common.jobs.job import Job
from common.jobs.new_event import NewEvent
from common.jobs.new_job import NewJob
from common.jobs.submit_reusing import Reused
from common.jobs.twins import FoundTwin
from common.telemetry import tracing
from common.views.job import JobUrls, render_event

SUCCEEDED = "job.succeeded"


class Hit(NamedTuple):
    """A job that ends with the result of its twin, and its row as it is then. Large outputs are left out."""

    reused: Reused
    row: Job
    outputs: bytes | None


def make_hit(job: NewJob, twin: FoundTwin, urls: JobUrls) -> Hit:
    """Return the job with its event. Its trace is that of the request, which is linked to the twin's."""
    assert twin.state is not None, "the twin has a result"
    tracing.add_link(twin.traceparent)
    row = Job(
        id=job.id,
        tenant_id=job.tenant_id,
        model=twin.state.model,
        version=twin.state.version,
        priority=job.priority,
        status=Status.SUCCEEDED,
        attempt=0,
        max_attempts=job.max_attempts,
        created_at=twin.at,
        run_at=twin.at,
        started_at=None,
        finished_at=twin.at,
        expires_at=None if job.expires_in is None else twin.at + timedelta(seconds=job.expires_in),
        error_code=None,
        error_message=None,
        error_retryable=None,
        inference_ms=None,
        traceparent=job.traceparent,
        metadata=job.metadata,
        reused_from=twin.job_id,
        reuse_key=job.reuse_key,
    )
    sequence = number_event(SUCCEEDED, twin.claim)
    body = render_event(
        row, urls, SUCCEEDED, twin.at, twin.outputs, sequence=sequence, has_large_outputs=twin.has_large_outputs
    )
    here = get_current_span()
    trace = tracing.to_traceparent(here) if here.get_span_context().is_valid else job.traceparent
    event = NewEvent(ids.new(), SUCCEEDED, sequence, body, trace)
    return Hit(Reused(job, twin.job_id, twin.claim, twin.at, event), row, twin.outputs)
