"""A request becomes a job: checked whole, then committed with its doorbell, then rung."""

from typing import NamedTuple, assert_never
from uuid import UUID

import msgspec

from common.addresses import Policy
from common.batching import Batcher
from common.database import statement
from common.job_view import JobRow
from common.jobs import Status
from common.outbox import Outbox
from services.gateway.auth import revoked
from services.gateway.catalogue import Catalogue
from services.gateway.idempotency import Repeats, check_repeat, in_progress
from services.gateway.idempotency_store import Label, Named
from services.gateway.protocol import Wanted
from services.gateway.queues import Queues
from services.gateway.reading import Asked, Url, read_again, read_infer, read_job
from services.gateway.store import NewJob, Store, Times
from services.gateway.workers import Workers


class Submitted(NamedTuple):
    """A job, whether its client gave a webhook, and whether it was submitted before, under the same key."""

    row: JobRow
    has_webhook: bool
    replayed: bool


class Submitter:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        outbox: Outbox,
        policy: Policy,
        queues: Queues,
        repeats: Repeats,
        workers: Workers,
    ) -> None:
        self.catalogue = catalogue
        self.outbox = outbox
        self.policy = policy
        self.queues = queues
        self.repeats = repeats
        self.workers = workers
        self.store = store
        self.batcher: Batcher[NewJob, Times | Named | None] = Batcher(
            self.add, name="submits", weigh=lambda job: len(job.tensors)
        )

    async def add(self, jobs: list[NewJob]) -> list[Times | Named | None]:
        """Rings for those that are due at once. None for a job whose idempotency key is used by one that went away just
        now, or whose caller's key was revoked just now."""
        times = await self.store.submit_jobs(jobs)
        self.outbox.announce([job.message for job in jobs if (at := times.get(job.id)) and at.run_at <= at.created_at])
        named: dict[tuple[UUID, str], Named] = {}
        if used := [
            (job.tenant_id, job.idempotency_key) for job in jobs if job.idempotency_key and job.id not in times
        ]:
            named = await self.repeats.store.find_named(used)
        return [times.get(job.id) or named.get((job.tenant_id, job.idempotency_key or "")) for job in jobs]

    async def ask(
        self, tenant_id: UUID, traceparent: str, label: Label | None = None, key_id: UUID | None = None
    ) -> Asked:
        """What a request is read with."""
        return Asked(tenant_id, traceparent, await self.catalogue.read(), self.policy, label, key_id)

    async def read(self, body: bytes | str, asked: Asked) -> NewJob:
        """The job, checked and not yet written; raises Problem (400, 404, 422)."""
        return await self.workers.work(len(body), read_job, body, asked)

    async def read_infer(self, body: bytes, url: Url, asked: Asked) -> tuple[NewJob, Wanted]:
        """The same of the Open Inference Protocol, and how to answer."""
        return await self.workers.work(len(body), read_infer, body, url, asked)

    async def take(self, body: bytes, asked: Asked) -> Submitted:
        """The job of a body; what its key stands for already is answered before anything else is looked at.

        Raises Problem (400, 404, 409, 422, 429) before anything is written, Unavailable where it can't be.
        """
        if asked.label is not None and (first := await self.repeats.find(asked.tenant_id, asked.label.key)):
            check_repeat(first, asked.label.fingerprint, is_batch=False)
            return replay(first, await self.workers.work(len(body), read_again, body, asked))
        return await self.submit(await self.read(body, asked))

    async def submit(self, job: NewJob) -> Submitted:
        """The job, committed; raises as `take` does."""
        await self.queues.admit(job.tenant_id, job.model)
        with statement("INSERT", "jobs"):
            added = await self.batcher.submit(job)
        match added:
            case Times() as times:
                return Submitted(show(job, times), job.callback_url is not None, replayed=False)
            case Named() as first:  # another request was quicker
                return replay(first, job)
            case None:
                raise in_progress() if job.idempotency_key else revoked()
            case never:
                assert_never(never)


def replay(first: Named, job: NewJob) -> Submitted:
    """The job as it was first answered; raises Problem (422) where the key stands for something else."""
    check_repeat(first, job.fingerprint or b"", is_batch=False)
    assert first.run_at is not None, "the database holds it"
    job = msgspec.structs.replace(job, id=first.id, traceparent=first.traceparent)
    if first.erased:
        job = msgspec.structs.replace(job, metadata=None)
    row = show(job, Times(first.created_at, first.run_at, first.expires_at))
    return Submitted(row, job.callback_url is not None, replayed=True)


def show(job: NewJob, times: Times) -> JobRow:
    return JobRow(
        id=job.id,
        tenant_id=job.tenant_id,
        model=job.model,
        version=job.version,
        priority=job.priority,
        status=Status.QUEUED,
        attempt=0,
        max_attempts=job.max_attempts,
        created_at=times.created_at,
        run_at=times.run_at,
        started_at=None,
        finished_at=None,
        expires_at=times.expires_at,
        error_code=None,
        error_message=None,
        error_retryable=None,
        inference_ms=None,
        traceparent=job.traceparent,
        metadata=job.metadata,
    )
