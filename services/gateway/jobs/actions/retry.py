"""Retries ended jobs, one or many, on the same or another model."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids, tensors
from common.job_states import Status
from common.jobs.retry import retry_jobs
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUp, WakeUpPublisher
from common.telemetry import tracing
from common.tensors import FileContent, Signature, Tensor
from services.gateway.auth.model_permissions import check_model
from services.gateway.auth.store import Key
from services.gateway.http.problems import FieldError, Problem, invalid
from services.gateway.jobs.actions.store import JobState, RetryableJob, RetryStore
from services.gateway.jobs.inputs.shapes import fits, show_shape
from services.gateway.jobs.inputs.validation import check_batch, list_names, show
from services.gateway.jobs.runs.refusals import explain_step
from services.gateway.jobs.runs.retry import Refusal, RunRetrier
from services.gateway.jobs.schemas import Skipped
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.store import ModelVersion

RETRYABLE = (Status.FAILED, Status.CANCELED, Status.EXPIRED)
REPLAYABLE = (Status.FAILED,)  # the dead letters


class Retried(NamedTuple):
    """The wake-ups of the jobs that are queued again, for `announce`; and why others are refused."""

    wake_ups: dict[UUID, Sequence[WakeUp]]
    refused: dict[UUID, Refusal]


class Retrier:
    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        wake_ups: WakeUpPublisher,
        changes: ChangePublisher,
        runs: RunRetrier,
    ) -> None:
        self._database = database
        self._store = RetryStore(database)
        self._catalogue = catalogue
        self._wake_ups = wake_ups
        self._changes = changes
        self._runs = runs

    async def retry(self, key: Key, jobs: Sequence[UUID], statuses: Sequence[Status], target: str | None) -> Retried:
        """Queue those of the jobs again that have one of these statuses. A run goes on with what it lacks.

        With a target model, it retries only jobs whose inputs the model accepts. It refuses jobs of steps.

        Raises Problem: 422 for an unknown model, 403 for one that the key may not run.
        """
        await self._check_permissions(key, jobs, target)
        kin = await self._store.find_kin(key.tenant_id, jobs)
        refused = {job: Refusal("step", explain_step(each, "retry")) for job, each in kin.items() if not each.is_run}
        alone = [job for job in jobs if job not in kin]
        if target is not None:
            refused |= {job: no_other_model(target) for job, each in kin.items() if each.is_run}
            refused |= await self._find_refused(key, alone, statuses, target)
            alone = [job for job in alone if job not in refused]
        queued = await retry_jobs(self._database, key.tenant_id, alone, statuses, target)
        wake_ups: dict[UUID, Sequence[WakeUp]] = {job: [wake_up] for job, wake_up in queued.items()}
        for run in [job for job in kin if job not in refused]:
            outcome = await self._runs.retry(key.tenant_id, run, statuses)
            if isinstance(outcome, Refusal):
                refused[run] = outcome
            elif outcome is not None:
                wake_ups[run] = outcome
        for wake_up in queued.values():
            tracing.add_link(wake_up.traceparent)
        self._changes.notify(wake_ups)
        return Retried(wake_ups, refused)

    def announce(self, wake_ups: Mapping[UUID, Sequence[WakeUp]]) -> None:
        """Announce retried jobs. Until then their status is `queued`, unless a dispatcher looks by itself."""
        self._wake_ups.announce(chain.from_iterable(wake_ups.values()))

    async def _check_permissions(self, key: Key, jobs: Sequence[UUID], target: str | None) -> None:
        """Raise Problem (403) if the key may not run what the jobs would run now: their models and fallback models."""
        if target is not None:
            check_model(key.models, target)
        if key.models is not None:
            for own, fallback in await self._store.list_job_models(key.tenant_id, jobs):
                for name in (own if target is None else None, fallback):
                    if name is not None:
                        check_model(key.models, name)

    async def explain_skips(
        self, tenant_id: UUID, jobs: Sequence[UUID], refused: Mapping[UUID, Refusal]
    ) -> list[Skipped]:
        """Return why each of these jobs was not replayed. `refused` is what `retry` returned."""
        states = await self._store.find_states(tenant_id, jobs) if jobs else {}
        return [explain_skip(job, states.get(job), refused.get(job)) for job in jobs]

    async def _find_refused(
        self, key: Key, jobs: Sequence[UUID], statuses: Sequence[Status], target: str
    ) -> dict[UUID, Refusal]:
        """Return the jobs whose inputs the target model refuses, with the reason."""
        try:
            found = await self._catalogue.find(target, allowed=key.models)
        except Problem as problem:
            raise invalid(FieldError("/target_model", problem.detail)) from problem
        retryable = await self._store.find_retryable(key.tenant_id, jobs, statuses)
        refused: dict[UUID, Refusal] = {}
        for chunk in chunk_jobs(retryable):
            inputs = await self._store.read_inputs(key.tenant_id, chunk)
            for job, packed in inputs.items():
                if reason := explain_refusal(found, packed):
                    refused[job] = Refusal("inputs_refused", reason)
        return refused


def explain_skip(job: UUID, state: JobState | None, refusal: Refusal | None) -> Skipped:
    """Return why a job was not replayed. Pure."""
    shown = ids.encode(ids.Kind.JOB, job)
    if state is None:
        return Skipped(shown, "not_found", "your tenant has no such job, or it was deleted after its retention")
    if refusal is not None:
        return Skipped(shown, *refusal)
    if state.erased:
        return Skipped(shown, "erased", "the job was erased, so it has no inputs; submit a new job")
    return Skipped(shown, "not_failed", f"the job is {state.status}; only a failed job is a dead letter")


def no_other_model(target: str) -> Refusal:
    text = f"'{target}' cannot replace the pipeline of a run; leave target_model out, and the run goes on"
    return Refusal("inputs_refused", text)


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


def explain_refusal(target: ModelVersion, packed: bytes) -> str | None:
    """Return why a model cannot get the packed inputs of a job for another model; None if it accepts them. Pure."""
    try:
        inputs = tensors.unpack(packed)
    except msgspec.DecodeError:
        return "a later release stored the job's inputs, so this gateway cannot check them; try again after the upgrade"
    reason = find_mismatch(target.inputs, target.max_batch_size, inputs)
    return f"'{target.name}' does not accept the job's inputs: {reason}" if reason else None


def find_mismatch(signatures: Sequence[Signature], max_batch_size: int, inputs: Sequence[Tensor]) -> str | None:
    """Return why a model with these signatures refuses tensors of another model; None if it accepts them."""
    declared = {signature.name: signature for signature in signatures}
    for tensor in inputs:
        if tensor.name not in declared:
            return f"it has no input '{tensor.name}'; it has {list_names(signatures)}"
        if problem := find_problem(tensor, declared[tensor.name]):
            return f"input '{tensor.name}': {problem}"
    given = {tensor.name for tensor in inputs}
    for signature in signatures:
        if not signature.optional and signature.name not in given:
            return f"input '{signature.name}' ({show(signature)}) is missing"
    errors = check_batch(inputs, max_batch_size)
    return errors[0].detail if errors else None


def find_problem(tensor: Tensor, signature: Signature) -> str | None:
    """Return why a tensor cannot be this input. A reference is a file, of any size, and never data."""
    if tensor.datatype != signature.datatype:
        return f"expected {signature.datatype}, got {tensor.datatype}"
    if not fits(tensor.shape, signature):
        return f"expected shape {show_shape(signature)}, got {tensor.shape}"
    file = tensor.data if isinstance(tensor.data, FileContent) else None
    if signature.reference and (file is None or file.inline):
        return "the model reads a file here itself, and the job has data"
    if not signature.reference and file is not None and file.by_reference:
        return "the model takes data here, and the job has a file of any size"
    return None
