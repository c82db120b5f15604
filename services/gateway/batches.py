"""Many jobs in one call: each is checked as it arrives, then all that are right are committed at once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids, tracing
from common.batch_view import BatchRow, Counts
from common.jobs import Status
from common.outbox import Outbox
from services.gateway import metrics
from services.gateway.batch_store import BatchStore, NewBatch
from services.gateway.bodies import MAX_ITEMS, Items
from services.gateway.errors import MAX_ERRORS, FieldError, Problem, invalid, name_type, shorten
from services.gateway.idempotency import check_repeat, in_progress
from services.gateway.idempotency_store import Label, Named
from services.gateway.schemas import ItemError
from services.gateway.store import NewJob, Times
from services.gateway.submit import Submitter

ITEM_ERRORS = 3  # told of one item
RING_SECONDS = 2.0
SLICE_SECONDS = 0.005  # of work before other requests get their turn


class Checked(NamedTuple):
    """The jobs that are right, what is wrong with the others, and the digest of all."""

    jobs: list[NewJob]
    errors: list[ItemError]
    fingerprint: bytes

    @property
    def total(self) -> int:
        return len(self.jobs) + len(self.errors)


class BatchAnswer(msgspec.Struct, frozen=True):
    """What a repeat is told, besides what the key's row has."""

    total: int
    accepted: int
    errors: list[ItemError]


class Accepted(NamedTuple):
    row: BatchRow
    counts: Counts
    errors: list[ItemError]
    replayed: bool


class BatchSubmitter:
    def __init__(self, store: BatchStore, submitter: Submitter, outbox: Outbox) -> None:
        self.store = store
        self.submitter = submitter
        self.outbox = outbox
        self.ringing: set[asyncio.Task[None]] = set()

    async def submit(self, tenant_id: UUID, items: Items, traceparent: str, key: str | None) -> Accepted:
        """The batch, committed with all its jobs, or the one that the key stands for.

        Raises Problem (422 where no item is right, or the key is another body's; 409; 429), Unavailable.
        """
        repeats = self.submitter.repeats
        if key is not None and (first := await repeats.find(tenant_id, key)):
            return replay(first, await items.skip())
        batch_id = ids.new()
        checked = await self.check(tenant_id, batch_id, items, traceparent)
        if key is not None and (first := await repeats.find(tenant_id, key)):  # accepted while this one came
            return replay(first, checked.fingerprint)
        if not checked.jobs:
            raise refuse(checked)
        for model, count in Counter(job.model for job in checked.jobs).items():
            await self.submitter.queues.admit(tenant_id, model, count)
        batch = NewBatch(batch_id, tenant_id, checked.total, len(checked.jobs), traceparent)
        if key is not None:
            answer = msgspec.json.encode(BatchAnswer(batch.total, batch.accepted, checked.errors))
            batch = batch._replace(label=Label(key, checked.fingerprint), answer=answer)
        added = await self.store.add(batch, checked.jobs)
        if added is None:
            raise in_progress()
        row, times = added
        await self.ring(checked.jobs, times)
        return Accepted(row, {Status.QUEUED: row.accepted}, checked.errors, replayed=False)

    async def check(self, tenant_id: UUID, batch_id: UUID, items: Items, traceparent: str) -> Checked:
        jobs: list[NewJob] = []
        errors: list[ItemError] = []
        asked = await self.submitter.ask(tenant_id, traceparent)
        async for index, item in take_turns(items):
            try:
                job = await self.submitter.read(item, asked)
            except Problem as problem:
                told = [shorten(error) for error in problem.errors[:ITEM_ERRORS]]
                errors.append(ItemError(index, name_type(problem), problem.detail[:500], told))
            else:
                items.hold(max(0, len(job.tensors) - len(item)))  # `[1,1]` is 16 bytes of FP64
                jobs.append(enlist(job, batch_id))
        return Checked(jobs, errors, items.digest.digest())

    async def ring(self, jobs: list[NewJob], times: dict[UUID, Times]) -> None:
        """Beside the answer, which waits only where too much is to be rung for already, and not for long: else who
        submits faster than we ring would fill our memory. What is lost with this process is relayed."""
        due = [job for job in jobs if times[job.id].run_at <= times[job.id].created_at]
        crowded = self.outbox.is_crowded  # by others: this batch's may be as many
        task = asyncio.create_task(self.outbox.announce_many([job.message for job in due]))
        self.ringing.add(task)
        task.add_done_callback(self.ringing.discard)
        for job in jobs:
            metrics.jobs_submitted.labels(job.model, job.priority).inc()
        if crowded:
            await asyncio.wait([task], timeout=RING_SECONDS)


def replay(first: Named, fingerprint: bytes) -> Accepted:
    """The batch as it was first answered; raises Problem (422) where the key stands for something else."""
    check_repeat(first, fingerprint, is_batch=True)
    assert first.answer is not None, "the database holds it"
    answer = msgspec.json.decode(first.answer, type=BatchAnswer)
    row = BatchRow(
        id=first.id, total=answer.total, accepted=answer.accepted, created_at=first.created_at, finished_at=None
    )
    return Accepted(row, {Status.QUEUED: row.accepted}, answer.errors, replayed=True)


async def take_turns(items: Items) -> AsyncIterator[tuple[int, bytes | str]]:
    """The items with their numbers; now and then other requests get their turn. Raises Problem (422) for too many."""
    index, began = 0, time.perf_counter()
    async for item in items:
        if index == MAX_ITEMS:
            raise invalid(FieldError("", f"has more than {MAX_ITEMS} jobs"))
        yield index, item
        index += 1
        if time.perf_counter() - began > SLICE_SECONDS:
            await asyncio.sleep(0)
            began = time.perf_counter()


def enlist(job: NewJob, batch_id: UUID) -> NewJob:
    """A job of a batch, in a trace of its own that is linked to the batch's: one of all could not be read."""
    shown = ids.show(ids.Kind.JOB, job.id)
    trace = tracing.begin_linked(f"submit jobs.{job.model}", job.traceparent, {"charonia.job_id": shown})
    message = msgspec.structs.replace(job.message, traceparent=trace)
    return msgspec.structs.replace(job, batch_id=batch_id, traceparent=trace, message=message)


def refuse(checked: Checked) -> Problem:
    """No item is right, or there is none."""
    told = [
        FieldError(f"/{item.index}{error.pointer}", error.detail)
        for item in checked.errors[:MAX_ERRORS]
        for error in item.errors or [FieldError("", item.detail)]
    ]
    return invalid(*(told or [FieldError("", "has no jobs")]))
