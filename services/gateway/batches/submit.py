"""Submits many jobs in one call: validates each as it arrives, then commits the valid ones together."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids
from common.jobs import Status
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.telemetry import tracing
from common.views.batch import BatchRow, Counts
from services.gateway import metrics
from services.gateway.auth.store import Key
from services.gateway.batches.items import MAX_ITEMS, Items
from services.gateway.batches.schemas import ItemError
from services.gateway.batches.store import BatchStore, NewBatch
from services.gateway.http.problems import MAX_ERRORS, FieldError, Problem, invalid, name_type, shorten
from services.gateway.jobs.idempotency import check_same_request, in_progress
from services.gateway.jobs.idempotency_store import KeyRecord, RequestKey
from services.gateway.jobs.store import JobTimes, NewJob
from services.gateway.jobs.submit import Submitter

MAX_ITEM_ERRORS = 3  # reported for one item
YIELD_SECONDS = 0.005  # of work before other requests run


class CheckedItems(NamedTuple):
    """The valid jobs, the errors of the other items, and the digest of the whole body."""

    jobs: list[NewJob]
    errors: list[ItemError]
    fingerprint: bytes

    @property
    def total(self) -> int:
        return len(self.jobs) + len(self.errors)


class StoredResponse(msgspec.Struct, frozen=True):
    """The part of a response that is stored with its idempotency key."""

    total: int
    accepted: int
    errors: list[ItemError]


class AcceptedBatch(NamedTuple):
    row: BatchRow
    counts: Counts
    errors: list[ItemError]
    replayed: bool


class BatchSubmitter:
    """Submits batches."""

    def __init__(self, store: BatchStore, submitter: Submitter, wake_ups: WakeUpPublisher) -> None:
        self._store = store
        self.submitter = submitter
        self._wake_ups = wake_ups
        self._announcing: set[asyncio.Task[None]] = set()

    async def submit(self, caller: Key, items: Items, traceparent: str, key: str | None) -> AcceptedBatch:
        """Commit the batch with all its jobs, or return the one that the idempotency key belongs to.

        Raises Problem (409, 422, 429) and Unavailable. It is 422 without a valid item, or with the key of another body.
        """
        keys, tenant_id = self.submitter.idempotency_keys, caller.tenant_id
        if key is not None and (first := await keys.find(tenant_id, key)):
            return replay(first, await items.skip())
        batch_id = ids.new()
        checked = await self._check(caller, batch_id, items, traceparent)
        if key is not None and (first := await keys.find(tenant_id, key)):  # accepted while this body arrived
            return replay(first, checked.fingerprint)
        if not checked.jobs:
            raise no_valid_item(checked)
        size = sum(job.input_bytes for job in checked.jobs)
        await self.submitter.limits.admit_all(tenant_id, Counter(job.model for job in checked.jobs), size)
        batch = NewBatch(batch_id, tenant_id, checked.total, len(checked.jobs), traceparent)
        if key is not None:
            answer = msgspec.json.encode(StoredResponse(batch.total, batch.accepted, checked.errors))
            batch = batch._replace(request_key=RequestKey(key, checked.fingerprint), answer=answer)
        added = await self._store.add(batch, checked.jobs)
        if added is None:
            raise in_progress()
        row, times = added
        self._announce(checked.jobs, times)
        return AcceptedBatch(row, {Status.QUEUED: row.accepted}, checked.errors, replayed=False)

    async def _check(self, caller: Key, batch_id: UUID, items: Items, traceparent: str) -> CheckedItems:
        jobs: list[NewJob] = []
        errors: list[ItemError] = []
        context = await self.submitter.make_context(caller, traceparent)
        async for index, item in enumerate_items(items):
            try:
                job = await self.submitter.parse(item, context)
            except Problem as problem:
                fields = [shorten(error) for error in problem.errors[:MAX_ITEM_ERRORS]]
                errors.append(ItemError(index, name_type(problem), problem.detail[:500], fields))
            else:
                items.hold(max(0, len(job.tensors) - len(item)))  # packed, `[1,1]` is 16 bytes of FP64
                jobs.append(add_to_batch(job, batch_id))
        return CheckedItems(jobs, errors, items.digest.digest())

    def _announce(self, jobs: list[NewJob], times: dict[UUID, JobTimes]) -> None:
        """Announce the jobs in the background."""
        due = [job for job in jobs if times[job.id].run_at <= times[job.id].created_at]
        task = asyncio.create_task(self._wake_ups.announce_many([job.wake_up for job in due]))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
        for job in jobs:
            metrics.jobs_submitted.labels(job.model, job.priority).inc()


def replay(first: KeyRecord, fingerprint: bytes) -> AcceptedBatch:
    """Return the batch of the first response. Raises Problem (422) if the key belongs to another request."""
    check_same_request(first, fingerprint, is_batch=True)
    assert first.answer is not None, "the database holds it"
    answer = msgspec.json.decode(first.answer, type=StoredResponse)
    row = BatchRow(
        id=first.id, total=answer.total, accepted=answer.accepted, created_at=first.created_at, finished_at=None
    )
    return AcceptedBatch(row, {Status.QUEUED: row.accepted}, answer.errors, replayed=True)


async def enumerate_items(items: Items) -> AsyncIterator[tuple[int, bytes | str]]:
    """Yield the items with their numbers. Lets other requests run in between. Raises Problem (422) for too many."""
    index, began = 0, time.perf_counter()
    async for item in items:
        if index == MAX_ITEMS:
            raise invalid(FieldError("", f"the body has more than {MAX_ITEMS} jobs; split it into several batches"))
        yield index, item
        index += 1
        if time.perf_counter() - began > YIELD_SECONDS:
            await asyncio.sleep(0)
            began = time.perf_counter()


def add_to_batch(job: NewJob, batch_id: UUID) -> NewJob:
    """Return the job as a part of the batch, with its own trace: one trace of 10,000 jobs would be unreadable."""
    shown = ids.encode(ids.Kind.JOB, job.id)
    trace = tracing.start_linked_span(f"submit jobs.{job.model}", job.traceparent, {"charonia.job_id": shown})
    wake_up = msgspec.structs.replace(job.wake_up, traceparent=trace)
    return msgspec.structs.replace(job, batch_id=batch_id, traceparent=trace, wake_up=wake_up)


def no_valid_item(checked: CheckedItems) -> Problem:
    """Return the problem of a body without a valid item."""
    errors = [
        FieldError(f"/{item.index}{error.pointer}", error.detail)
        for item in checked.errors[:MAX_ERRORS]
        for error in item.errors or [FieldError("", item.detail)]
    ]
    return invalid(*(errors or [FieldError("", "the batch is empty; send at least one job")]))
