"""Makes the jobs of a step. Pure."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from common import ids, tensors
from common.jobs.new_job import JobFile, NewJob
from common.jobs.run import Run
from common.pipelines.definition import StepDefinition
from common.rabbitmq.messages import QueuedJob
from common.rabbitmq.wake_ups import job_wake_up
from common.reuse.digest import Question, make_key
from common.tensors import FileContent, ObjectContent, Tensor

NO_HASHES: Mapping[UUID, bytes] = {}


def make_job(
    run: Run,
    name: str,
    step: StepDefinition,
    index: int,
    inputs: Sequence[Tensor],
    hashes: Mapping[UUID, bytes] = NO_HASHES,
) -> NewJob:
    """Return the job of an element of a step. It runs in the run's trace, and is kept as long.

    `hashes` has the SHA-256 of files, if the step reuses results.
    """
    job_id = ids.new()
    priority = run.priority if step.priority is None else step.priority
    key = None
    if step.reuse is not None:
        question = Question(run.tenant_id, step.model, step.version, step.fallback_model, True, step.parameters)
        key = make_key(question, inputs, hashes)
    return NewJob(
        id=job_id,
        tenant_id=run.tenant_id,
        model=step.model,
        version=step.version,
        priority=priority,
        max_attempts=step.retry.max_attempts,
        run_at=None,
        expires_in=None,
        timeout=step.timeout,
        initial_delay=step.retry.initial_delay,
        max_delay=step.retry.effective_max_delay,
        fallback_model=step.fallback_model,
        traceparent=run.traceparent,
        tensors=tensors.pack([*inputs]),
        parameters=msgspec.json.encode(step.parameters) if step.parameters else None,
        metadata=None,
        callback_url=None,
        callback_events=None,
        wake_up=job_wake_up(QueuedJob(run.tenant_id, job_id), priority, step.model, run.traceparent),
        batch_id=None,
        retain=run.retain,
        files=[JobFile(file, f"/inputs/{tensor.name}") for tensor in inputs for file in list_files(tensor)],
        file_bytes=sum(measure(tensor) for tensor in inputs),
        parent=run.id,
        step=name,
        step_index=index,
        reuse_key=key,
        reuse_seconds=None if key is None or step.reuse is None else step.reuse.max_age,
    )


def list_files(tensor: Tensor) -> list[UUID]:
    """Return the file that a tensor is in, if it is in one."""
    return [tensor.data.file_id] if isinstance(tensor.data, FileContent) else []


def measure(tensor: Tensor) -> int:
    """Return the bytes of a tensor that a dispatcher reads from elsewhere."""
    return tensor.data.bytes_read if isinstance(tensor.data, FileContent | ObjectContent) else 0
