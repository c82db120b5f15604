"""Many jobs in one call: each is checked as it arrives, then all that are right are committed at once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids
from common.batch_view import BatchRow, Counts
from common.jobs import Status
from common.outbox import Outbox
from services.gateway import metrics
from services.gateway.batch_store import BatchStore, NamedBatch, NewBatch
from services.gateway.bodies import Items
from services.gateway.errors import MAX_ERRORS, FieldError, Problem, decode_body, invalid, name_type, shorten
from services.gateway.schemas import ItemError, SubmitJob
from services.gateway.store import NewJob, Times
from services.gateway.submit import IDEMPOTENCY_KEY, Submitter

MAX_JOBS = 10_000
ITEM_ERRORS = 3  # told of one item
SLICE_SECONDS = 0.005  # of work before other requests get their turn


class Checked(NamedTuple):
    """The jobs that are right, what is wrong with the others, and the digest of all."""

    jobs: list[NewJob]
    errors: list[ItemError]
    fingerprint: bytes

    @property
    def total(self) -> int:
        return len(self.jobs) + len(self.errors)


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
        batch_id = ids.new()
        checked = await self.check(tenant_id, batch_id, items, traceparent)
        if key is not None and (named := await self.store.find_named(tenant_id, key)):
            return await self.replay(named, checked)
        if not checked.jobs:
            raise refuse(checked)
        for model, count in Counter(job.model for job in checked.jobs).items():
            await self.submitter.queues.admit(tenant_id, model, count)
        batch = NewBatch(
            *(batch_id, tenant_id, checked.total, len(checked.jobs)),
            *(key, checked.fingerprint if key is not None else None, traceparent),
        )
        added = await self.store.add(batch, checked.jobs)
        if added is None:
            text = "another request under this Idempotency-Key is still in progress"
            raise Problem(HTTPStatus.CONFLICT, "conflict", text)
        row, times = added
        self.ring(checked.jobs, times)
        return Accepted(row, {Status.QUEUED: row.accepted}, checked.errors, replayed=False)

    async def check(self, tenant_id: UUID, batch_id: UUID, items: Items, traceparent: str) -> Checked:
        jobs: list[NewJob] = []
        errors: list[ItemError] = []
        async for index, item in take_turns(items):
            try:
                request = decode_body(item, SubmitJob)
                job = await self.submitter.prepare(tenant_id, request, traceparent)
                jobs.append(msgspec.structs.replace(job, batch_id=batch_id))
            except Problem as problem:
                told = [shorten(error) for error in problem.errors[:ITEM_ERRORS]]
                errors.append(ItemError(index, name_type(problem), problem.detail[:500], told))
        return Checked(jobs, errors, items.digest.digest())

    async def replay(self, named: NamedBatch, checked: Checked) -> Accepted:
        if named.fingerprint != checked.fingerprint:
            raise invalid(FieldError(IDEMPOTENCY_KEY, "this key was used within a day for another batch"))
        return Accepted(named.row, await self.store.count_jobs(named.row.id), checked.errors, replayed=True)

    def ring(self, jobs: list[NewJob], times: dict[UUID, Times]) -> None:
        """Beside the answer, which does not wait; what is lost with this process is relayed."""
        due = [job for job in jobs if times[job.id].run_at <= times[job.id].created_at]
        task = asyncio.create_task(self.outbox.announce_many([job.message for job in due]))
        self.ringing.add(task)
        task.add_done_callback(self.ringing.discard)
        for job in jobs:
            metrics.jobs_submitted.labels(job.model, job.priority).inc()


async def take_turns(items: Items) -> AsyncIterator[tuple[int, bytes | str]]:
    """The items with their numbers; now and then other requests get their turn. Raises Problem (422) for too many."""
    index, began = 0, time.perf_counter()
    async for item in items:
        if index == MAX_JOBS:
            raise invalid(FieldError("", f"has more than {MAX_JOBS} jobs"))
        yield index, item
        index += 1
        if time.perf_counter() - began > SLICE_SECONDS:
            await asyncio.sleep(0)
            began = time.perf_counter()


def refuse(checked: Checked) -> Problem:
    """No item is right, or there is none."""
    told = [
        FieldError(f"/{item.index}{error.pointer}", error.detail)
        for item in checked.errors[:MAX_ERRORS]
        for error in item.errors or [FieldError("", item.detail)]
    ]
    return invalid(*(told or [FieldError("", "has no jobs")]))
