"""A request becomes a job: checked whole, then committed with its doorbell, then rung."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import assert_never
from uuid import UUID

import msgspec

from common import ids, tensors
from common.addresses import Policy, check_url
from common.batching import Batcher
from common.errors import AddressRefused
from common.job_view import JobRow
from common.jobs import Status
from common.outbox import Outbox, ring_job
from common.tensors import Tensor
from services.gateway.catalogue import Catalogue
from services.gateway.errors import FieldError, Problem, invalid
from services.gateway.idempotency import Repeats, check_repeat, in_progress
from services.gateway.idempotency_store import Label, Named
from services.gateway.queues import Queues
from services.gateway.schemas import SubmitJob
from services.gateway.store import ModelVersion, NewJob, Store, Times
from services.gateway.tensors import escape, read_inputs
from services.gateway.times import bound_optional

MAX_PARAMETERS = 100
MAX_METADATA = 16 * 1024
FURTHEST = timedelta(days=366)
RESERVED = "triton_"  # parameters that begin so are Triton's own


class Submitter:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        outbox: Outbox,
        policy: Policy,
        queues: Queues,
        repeats: Repeats,
    ) -> None:
        self.catalogue = catalogue
        self.outbox = outbox
        self.policy = policy
        self.queues = queues
        self.repeats = repeats
        self.store = store
        self.batcher: Batcher[NewJob, Times | Named | None] = Batcher(
            self.add, name="submits", weigh=lambda job: len(job.tensors)
        )

    async def add(self, jobs: list[NewJob]) -> list[Times | Named | None]:
        """None for a job whose key is used by one that went away just now."""
        times = await self.store.submit_jobs(jobs)
        named: dict[tuple[UUID, str], Named] = {}
        if used := [(job.tenant_id, job.idempotency_key or "") for job in jobs if job.id not in times]:
            named = await self.repeats.store.find_named(used)
        return [times.get(job.id) or named.get((job.tenant_id, job.idempotency_key or "")) for job in jobs]

    async def submit(
        self, tenant_id: UUID, request: SubmitJob, traceparent: str, label: Label | None = None
    ) -> tuple[JobRow, bool]:
        """The job, committed, and whether it was so before, under the same idempotency key: then nothing else counts.

        Raises Problem (404, 409, 422, 429) before anything is written, Unavailable where it can't be.
        """
        if label is not None and (first := await self.repeats.find(tenant_id, label.key)):
            return replay(first, tenant_id, request, label), True
        job = await self.prepare(tenant_id, request, traceparent)
        if label is not None:
            job = msgspec.structs.replace(job, idempotency_key=label.key, fingerprint=label.fingerprint)
        await self.queues.admit(tenant_id, job.model)
        match await self.batcher.submit(job):
            case Times() as times:
                if times.run_at <= times.created_at:
                    self.outbox.announce([job.message])
                return show(job, times), False
            case Named() as first:  # another request was quicker
                assert label is not None, "only what has a key is left out"
                return replay(first, tenant_id, request, label), True
            case None:
                raise in_progress()
            case never:
                assert_never(never)

    async def prepare(self, tenant_id: UUID, request: SubmitJob, traceparent: str) -> NewJob:
        """The job, checked and not yet written; raises Problem (404, 422)."""
        model = await self.catalogue.find(request.model, request.version)
        job = build(tenant_id, request, self.check(request, model), traceparent)
        if request.fallback_model is not None:
            await self.check_fallback(request, request.fallback_model, job.tensors)
        return job

    def check(self, request: SubmitJob, model: ModelVersion) -> list[Tensor]:
        found, errors = read_inputs(request.inputs, model.inputs, model.max_batch_size)
        errors += check_options(request)
        if request.webhook is not None:
            try:
                check_url(request.webhook.url, self.policy)
            except AddressRefused as error:
                errors.append(FieldError("/webhook/url", str(error)))
        if errors:
            raise invalid(*errors)
        return found

    async def check_fallback(self, request: SubmitJob, name: str, packed: bytes) -> None:
        """The fallback must be able to take what was packed for the model."""
        try:
            model = await self.catalogue.find(name)
        except Problem as problem:
            raise invalid(FieldError("/fallback_model", problem.detail)) from problem
        found, errors = read_inputs(request.inputs, model.inputs, model.max_batch_size)
        if errors or tensors.pack(found) != packed:
            text = f"'{name}' does not take the inputs of '{request.model}'"
            raise invalid(FieldError("/fallback_model", text), *errors)


def replay(first: Named, tenant_id: UUID, request: SubmitJob, label: Label) -> JobRow:
    """The job as it was first answered; raises Problem (422) where the key stands for something else."""
    check_repeat(first, label.fingerprint, is_batch=False)
    assert first.run_at is not None, "the database holds it"
    job = msgspec.structs.replace(build(tenant_id, request, [], first.traceparent), id=first.id)
    if first.erased:
        job = msgspec.structs.replace(job, metadata=None)
    return show(job, Times(first.created_at, first.run_at, first.expires_at))


def check_options(request: SubmitJob) -> list[FieldError]:
    errors = []
    if request.retry.longest < request.retry.initial_delay:
        errors.append(FieldError("/retry/max_delay", "is below initial_delay"))
    if request.run_at is not None and request.run_at > datetime.now(UTC) + FURTHEST:
        errors.append(FieldError("/run_at", f"is further away than {FURTHEST.days} days"))
    for name, value in islice((request.parameters or {}).items(), MAX_PARAMETERS):
        pointer = f"/parameters/{escape(name)}"
        if name.startswith(RESERVED):
            errors.append(FieldError(pointer, f"names that begin with '{RESERVED}' are reserved"))
        if type(value) is int and not -(2**63) <= value < 2**63:
            errors.append(FieldError(pointer, "does not fit 64 bits"))
    if len(request.parameters or {}) > MAX_PARAMETERS:
        errors.append(FieldError("/parameters", f"are over {MAX_PARAMETERS}"))
    if request.metadata is not None and len(msgspec.json.encode(request.metadata)) > MAX_METADATA:
        errors.append(FieldError("/metadata", f"is over {MAX_METADATA} bytes"))
    return errors


def build(tenant_id: UUID, request: SubmitJob, found: list[Tensor], traceparent: str) -> NewJob:
    job_id = ids.new()
    return NewJob(
        id=job_id,
        tenant_id=tenant_id,
        model=request.model,
        version=request.version,
        priority=request.priority,
        max_attempts=request.retry.max_attempts,
        run_at=bound_optional(request.run_at),
        expires_in=request.expires_in,
        timeout=request.timeout,
        initial_delay=request.retry.initial_delay,
        max_delay=request.retry.longest,
        fallback_model=request.fallback_model,
        traceparent=traceparent,
        tensors=tensors.pack(found),
        parameters=msgspec.json.encode(request.parameters) if request.parameters else None,
        metadata=None if request.metadata is None else msgspec.json.encode(request.metadata),
        callback_url=request.webhook.url if request.webhook else None,
        callback_events=request.webhook.events if request.webhook else None,
        message=ring_job(job_id, request.priority, request.model, traceparent),
    )


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
