"""What a client may still do with a job: cancel it, or have it begin anew."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
from opentelemetry.trace import Link, get_current_span

from common import ids, job_spans, tensors, tracing
from common.bell import Bell
from common.database import Database
from common.job_view import JobRow, Links, write_event
from common.jobs import TERMINAL, Status
from common.metrics import jobs_ended
from common.outbox import Outbox, OutboxRow, ring_cancel, ring_event
from common.tensors import Signature, Tensor
from services.gateway.catalogue import Catalogue
from services.gateway.control_store import ControlStore, LockedJob
from services.gateway.errors import FieldError, Problem, conflict, invalid, not_found
from services.gateway.tensors import check_batch, fits

RETRYABLE = (Status.FAILED, Status.CANCELED, Status.EXPIRED)
REPLAYABLE = (Status.FAILED,)  # the dead letters


class Control:
    def __init__(self, database: Database, catalogue: Catalogue, outbox: Outbox, bell: Bell, links: Links) -> None:
        self.database = database
        self.store = ControlStore(database)
        self.catalogue = catalogue
        self.outbox = outbox
        self.bell = bell
        self.links = links

    async def cancel(self, tenant_id: UUID, job_id: UUID) -> JobRow:
        """The job as it is then: canceled where it had not begun, else canceling.

        Raises Problem: 404, or 409 for a job that has ended. Again for one being canceled changes nothing.
        """
        async with self.database.transaction() as connection:
            found = await self.store.lock_job(connection, job_id, tenant_id)
            if found is None:
                raise not_found("job")
            status = found.row.status
            if status in TERMINAL:
                raise conflict(f"the job has ended already: it is {status}")
            message: OutboxRow | None = None
            row = found.row
            if status is Status.QUEUED:
                row = msgspec.structs.replace(row, status=Status.CANCELED, finished_at=found.now)
                with job_spans.since("queued", row, job_spans.due(row), link_here()) as trace:
                    job_spans.note_outcome(row.status)
                    event, message = self.tell(found, row, trace)
                    await self.store.cancel_queued(connection, row, event, message)
            elif status is Status.PROCESSING:
                row = msgspec.structs.replace(row, status=Status.CANCELING)
                message = ring_cancel(row.id, row.traceparent)
                await self.store.cancel_running(connection, row.id, message)
        if row.status is Status.CANCELED:
            jobs_ended.labels(row.model, row.status).inc()
        tracing.link(row.traceparent)
        self.bell.ring([job_id])
        self.outbox.announce([message] if message else [])
        return row

    def tell(self, found: LockedJob, row: JobRow, trace: str) -> tuple[tuple[UUID, str, bytes], OutboxRow]:
        event_id, kind = ids.new(), f"job.{row.status}"
        body = write_event(row, self.links, kind, found.now, None)
        return (event_id, kind, body), ring_event(event_id, kind, trace)

    async def revive(
        self, tenant_id: UUID, jobs: Sequence[UUID], states: Sequence[Status], model: str | None
    ) -> set[UUID]:
        """Those of the jobs that begin anew, on another model where one is given and takes their inputs.

        Raises Problem (422) where the model is not known.
        """
        if model is not None:
            jobs = await self.choose(tenant_id, jobs, states, model)
        rows = await self.store.revive_jobs(tenant_id, jobs, states, model)
        for row in rows.values():
            tracing.link(row.traceparent)
        self.bell.ring(rows)
        self.outbox.announce(rows.values())
        return set(rows)

    async def choose(
        self, tenant_id: UUID, jobs: Sequence[UUID], states: Sequence[Status], model: str
    ) -> Sequence[UUID]:
        """Those whose inputs the model takes."""
        try:
            found = await self.catalogue.find(model)
        except Problem as problem:
            raise invalid(FieldError("/model", problem.detail)) from problem
        ended = await self.store.find_revivable(tenant_id, jobs, states)
        return [job.id for job in ended if takes(tensors.unpack(job.tensors), found.inputs, found.max_batch_size)]


def takes(given: Sequence[Tensor], signatures: Sequence[Signature], max_batch_size: int) -> bool:
    """Whether a model takes tensors that were packed for another."""
    declared = {signature.name: signature for signature in signatures}
    needed = {signature.name for signature in signatures if not signature.optional}
    return (
        needed <= {tensor.name for tensor in given}
        and all(
            (wanted := declared.get(tensor.name)) is not None
            and tensor.datatype == wanted.datatype
            and fits(tensor.shape, wanted)
            for tensor in given
        )
        and not check_batch(given, max_batch_size)
    )


def link_here() -> list[Link]:
    """To the request that is being answered."""
    here = get_current_span().get_span_context()
    return [Link(here)] if here.is_valid else []
