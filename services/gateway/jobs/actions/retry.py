"""Retries ended jobs, one or many, on the same or another model."""

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from common import tensors
from common.job_states import Status
from common.jobs.retry import retry_jobs
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUp, WakeUpPublisher
from common.telemetry import tracing
from common.tensors import FileContent, Reference, Signature, Tensor
from services.gateway.auth.model_permissions import check_model
from services.gateway.auth.store import Key
from services.gateway.http.problems import FieldError, Problem, invalid
from services.gateway.jobs.actions.store import RetryableJob, RetryStore
from services.gateway.jobs.inputs.shapes import fits
from services.gateway.jobs.inputs.validation import check_batch
from services.gateway.models.catalogue import Catalogue

RETRYABLE = (Status.FAILED, Status.CANCELED, Status.EXPIRED)
REPLAYABLE = (Status.FAILED,)  # the dead letters


class Retrier:
    def __init__(
        self, database: Database, catalogue: Catalogue, wake_ups: WakeUpPublisher, changes: ChangePublisher
    ) -> None:
        self._database = database
        self._store = RetryStore(database)
        self._catalogue = catalogue
        self._wake_ups = wake_ups
        self._changes = changes

    async def retry(
        self, key: Key, jobs: Sequence[UUID], statuses: Sequence[Status], target: str | None
    ) -> dict[UUID, WakeUp]:
        """Queue those of the jobs again that have one of these statuses. Return their wake-ups, for `announce`.

        With a target model, it retries only jobs whose inputs the model accepts.

        Raises Problem: 422 for an unknown model, 403 for one that the key may not run.
        """
        await self._check_permissions(key, jobs, target)
        if target is not None:
            jobs = await self._select(key, jobs, statuses, target)
        wake_ups = await retry_jobs(self._database, key.tenant_id, jobs, statuses, target)
        for wake_up in wake_ups.values():
            tracing.add_link(wake_up.traceparent)
        self._changes.notify(wake_ups)
        return wake_ups

    def announce(self, wake_ups: Mapping[UUID, WakeUp]) -> None:
        """Announce retried jobs. Until then their status is `queued`, unless a dispatcher looks by itself."""
        self._wake_ups.announce(wake_ups.values())

    async def _check_permissions(self, key: Key, jobs: Sequence[UUID], target: str | None) -> None:
        """Raise Problem (403) if the key may not run what the jobs would run now: their models and fallback models."""
        if target is not None:
            check_model(key.models, target)
        if key.models is not None:
            for own, fallback in await self._store.list_job_models(key.tenant_id, jobs):
                for name in (own if target is None else None, fallback):
                    if name is not None:
                        check_model(key.models, name)

    async def _select(self, key: Key, jobs: Sequence[UUID], statuses: Sequence[Status], target: str) -> Sequence[UUID]:
        """Return the jobs whose inputs the target model accepts."""
        try:
            found = await self._catalogue.find(target, allowed=key.models)
        except Problem as problem:
            raise invalid(FieldError("/target_model", problem.detail)) from problem
        retryable = await self._store.find_retryable(key.tenant_id, jobs, statuses)
        accepted: list[UUID] = []
        for chunk in chunk_jobs(retryable):
            inputs = await self._store.read_inputs(key.tenant_id, chunk)
            accepted += [
                job
                for job, packed in inputs.items()
                if accepts(found.inputs, found.max_batch_size, tensors.unpack(packed))
            ]
        return accepted


def chunk_jobs(jobs: Sequence[RetryableJob]) -> Iterator[list[UUID]]:
    """Split the jobs into chunks whose inputs fit into memory: a thousand jobs may have gigabytes."""
    chunk: list[UUID] = []
    held = 0
    for job in jobs:
        held += job.size
        if chunk and held > MAX_BATCH_BYTES:
            yield chunk
            chunk, held = [], job.size
        chunk.append(job.id)
    if chunk:
        yield chunk


def accepts(signatures: Sequence[Signature], max_batch_size: int, inputs: Sequence[Tensor]) -> bool:
    """Return whether a model with these signatures accepts tensors that were packed for another model."""
    declared = {signature.name: signature for signature in signatures}
    required = {signature.name for signature in signatures if not signature.optional}
    return (
        required <= {tensor.name for tensor in inputs}
        and all(
            (signature := declared.get(tensor.name)) is not None
            and tensor.datatype == signature.datatype
            and fits(tensor.shape, signature)
            and accepts_content(signature, tensor.data)
            for tensor in inputs
        )
        and not check_batch(inputs, max_batch_size)
    )


def accepts_content(signature: Signature, data: bytes | Reference) -> bool:
    """Return whether the content may be of this input: a reference is a file, of any size, and never data."""
    if signature.reference:
        return isinstance(data, FileContent) and not data.inline
    return not isinstance(data, FileContent) or not data.by_reference
