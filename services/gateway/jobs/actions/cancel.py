"""Cancels jobs: queued ones at once, running ones through their dispatcher."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
from opentelemetry.trace import Link, get_current_span

from common import ids, job_spans
from common.event_types import number_event
from common.job_states import TERMINAL, Status
from common.jobs.cancel import LockedJob, cancel_queued, cancel_running, lock_job
from common.jobs.job import Job
from common.jobs.new_event import NewEvent
from common.jobs.run import lock_runs
from common.postgres.database import Connection, Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUp, WakeUpPublisher, cancel_wake_up, event_wake_up
from common.runs.progress import RunCarrier
from common.telemetry import tracing
from common.telemetry.metrics import PIPELINES, jobs_ended
from common.views.job import JobUrls, render_event
from services.gateway.http.problems import LATER, Problem, conflict, not_found
from services.gateway.jobs.runs.refusals import refuse_step


class Canceler:
    def __init__(
        self,
        database: Database,
        wake_ups: WakeUpPublisher,
        changes: ChangePublisher,
        urls: JobUrls,
        carrier: RunCarrier,
    ) -> None:
        self._database = database
        self._carrier = carrier
        self._wake_ups = wake_ups
        self._changes = changes
        self._urls = urls

    async def cancel(self, tenant_id: UUID, job_id: UUID) -> Job:
        """Cancel the job, and return it: `canceled` if it was queued, or is a run, else `canceling`.

        Raises Problem: 404, or 409 for an ended job and that of a step. A second call changes nothing.
        """
        async with self._database.transaction() as connection:
            found = await lock_job(connection, job_id, tenant_id)
            if found is None:
                raise not_found("job")
            row, wake_ups = await self._write(connection, found)
        if row.status is Status.CANCELED:
            jobs_ended.labels(PIPELINES if row.is_run else row.model, row.status).inc()
        tracing.add_link(row.traceparent)
        self._changes.notify([job_id])
        self._wake_ups.announce(wake_ups)
        return row

    async def _write(self, connection: Connection, found: LockedJob) -> tuple[Job, Sequence[WakeUp]]:
        """Write the transition of a locked job. Return the job and the wake-ups to announce."""
        row, status = found.job, found.job.status
        if row.parent is not None:
            raise refuse_step(row, "cancel")
        if status in TERMINAL:
            raise conflict(f"the job is {status}; only a job that has not ended can be canceled")
        if row.is_run:
            return await self._cancel_run(connection, found)
        if status is Status.QUEUED:
            row = msgspec.structs.replace(row, status=Status.CANCELED, finished_at=found.now)
            with job_spans.start_span_at(job_spans.queued_since(row), "queued", row, link_request()) as trace:
                job_spans.set_outcome(row.status)
                event_id, kind = ids.new(), f"job.{row.status}"
                sequence = number_event(kind, found.claim)
                body = render_event(row, self._urls, kind, found.now, None, sequence=sequence)
                await cancel_queued(connection, row.id, found.now, NewEvent(event_id, kind, sequence, body, trace))
            return row, [event_wake_up(event_id, kind, trace)]
        if status is Status.PROCESSING:
            row = msgspec.structs.replace(row, status=Status.CANCELING)
            await cancel_running(connection, row.id)
            return row, [cancel_wake_up(row.id, row.traceparent)]
        if status is Status.CANCELING:
            return row, []
        raise newer_state(row)

    async def _cancel_run(self, connection: Connection, found: LockedJob) -> tuple[Job, Sequence[WakeUp]]:
        """Cancel a run with its steps. Dispatchers end those that run."""
        for run, now in await lock_runs(connection, {found.job.id}):
            carried = await self._carrier.cancel(connection, run, now)
            return msgspec.structs.replace(found.job, status=Status.CANCELED, finished_at=now), carried.wake_ups
        raise newer_state(found.job)


def newer_state(row: Job) -> Problem:
    text = f"the job is {row.status}, a state of a later release, which this gateway cannot change; try again"
    return conflict(text, LATER)


def link_request() -> list[Link]:
    """Return a link to the span of the current request."""
    here = get_current_span().get_span_context()
    return [Link(here)] if here.is_valid else []
