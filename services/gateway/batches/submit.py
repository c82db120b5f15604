"""Submits many jobs in one call: validates each as it arrives, then commits the valid ones together."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids
from common.job_states import Status
from common.jobs.input_files import LargeInputsLost
from common.jobs.new_job import NewJob
from common.jobs.submit import JobTimes
from common.views.batch import BatchRow, Counts
from services.gateway.auth.store import Key
from services.gateway.batches.announcer import JobAnnouncer
from services.gateway.batches.checks import check_items, no_valid_item
from services.gateway.batches.items import Items
from services.gateway.batches.schemas import ItemError
from services.gateway.batches.store import BatchStore, FileGone, NewBatch
from services.gateway.http.problems import conflict
from services.gateway.jobs.idempotency.keys import check_same_request, in_progress
from services.gateway.jobs.idempotency.store import KeyRecord, RequestKey
from services.gateway.jobs.inputs.files import inputs_lost
from services.gateway.jobs.submit import Submitter


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

    def __init__(self, store: BatchStore, submitter: Submitter, announcer: JobAnnouncer) -> None:
        self._store = store
        self.submitter = submitter
        self._announcer = announcer

    async def submit(self, caller: Key, items: Items, traceparent: str, key: str | None) -> AcceptedBatch:
        """Commit the batch with all its jobs, or return the one that the idempotency key belongs to.

        Raises Problem (409, 422, 429) and Unavailable. It is 422 without a valid item, or with the key of another body.
        """
        keys, tenant_id = self.submitter.idempotency_keys, caller.tenant_id
        if key is not None and (first := await keys.find(tenant_id, key)):
            return replay(first, await items.skip())
        batch_id = ids.new()
        checked = await check_items(self.submitter, caller, batch_id, items, traceparent)
        if key is not None and (first := await keys.find(tenant_id, key)):  # accepted while this body arrived
            return replay(first, checked.fingerprint)
        if not checked.jobs:
            raise no_valid_item(checked)
        size = sum(job.input_bytes for job in checked.jobs)
        await self.submitter.limits.admit_all(tenant_id, Counter(job.model for job in checked.jobs), size)
        total, accepted = len(checked.items), len(checked.jobs)
        batch = NewBatch(batch_id, tenant_id, total, accepted, traceparent, items=checked.items)
        if key is not None:
            answer = msgspec.json.encode(StoredResponse(batch.total, batch.accepted, checked.errors))
            batch = batch._replace(request_key=RequestKey(key, checked.fingerprint), answer=answer)
        async with self.submitter.large_inputs.written(checked.jobs) as jobs:
            row, times = await self._add(batch, jobs)
        self._announcer.announce(checked.jobs, times)
        return AcceptedBatch(row, {Status.QUEUED: row.accepted}, checked.errors, replayed=False)

    async def _add(self, batch: NewBatch, jobs: Sequence[NewJob]) -> tuple[BatchRow, dict[UUID, JobTimes]]:
        """Add the batch with its jobs. Raises Problem (409, 503)."""
        try:
            added = await self._store.add(batch, jobs)
        except FileGone as error:
            file = ids.encode(ids.Kind.FILE, error.file.id)
            raise conflict(
                f"{file} was deleted, or has expired, while the batch was submitted; send it again"
            ) from error
        except LargeInputsLost as error:
            raise inputs_lost() from error
        if added is None:
            raise in_progress()
        return added


def replay(first: KeyRecord, fingerprint: bytes) -> AcceptedBatch:
    """Return the batch of the first response. Raises Problem (422) if the key belongs to another request."""
    check_same_request(first, fingerprint, is_batch=True)
    assert first.answer is not None, "the database holds it"
    answer = msgspec.json.decode(first.answer, type=StoredResponse)
    row = BatchRow(
        id=first.id, total=answer.total, accepted=answer.accepted, created_at=first.created_at, finished_at=None
    )
    return AcceptedBatch(row, {Status.QUEUED: row.accepted}, answer.errors, replayed=True)
