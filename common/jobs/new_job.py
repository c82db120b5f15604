"""A job to add, or a run of a pipeline."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.job_states import Priority
from common.rabbitmq.wake_ups import WakeUp


class JobFile(NamedTuple):
    """A file that a job reads, and the pointer to the field that names it."""

    id: UUID
    pointer: str


class LargeInput(NamedTuple):
    """An inline input that goes to the object store as a file: its data, or its SHA-256 once it is there."""

    id: UUID
    data: bytes
    sha256: bytes = b""


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to add. Durations are in seconds. `wake_up` announces it to the dispatchers; nobody announces a run."""

    id: UUID
    tenant_id: UUID
    model: str
    version: str | None
    priority: Priority
    max_attempts: int
    run_at: datetime | None
    expires_in: float | None
    timeout: float
    initial_delay: float
    max_delay: float
    fallback_model: str | None
    traceparent: str
    tensors: bytes
    parameters: bytes | None
    metadata: bytes | None
    callback_url: str | None
    callback_events: Sequence[str] | None
    wake_up: WakeUp
    idempotency_key: str | None = None
    fingerprint: bytes | None = None  # SHA-256 of the request's body, if there is an idempotency key
    batch_id: UUID | None = None
    retain: float | None = None  # seconds it is kept after its end
    files: Sequence[JobFile] = ()
    large_inputs: Sequence[LargeInput] = ()
    file_bytes: int = 0  # of tensors that are in files, or will be
    output_location: str | None = None  # s3://bucket/folder/
    parent: UUID | None = None  # the run of a step's job
    step: str | None = None  # the step's name in the pipeline
    step_index: int | None = None  # the element, from 0
    request: bytes | None = None  # what it was translated from, as JSON; None: it came as a job
    run_state: bytes | None = None  # of a run, with which it begins, as JSON; None: it is no run
    reuse_key: bytes | None = None  # common/reuse/digest.py; None: it shares nothing
    reuse_seconds: float | None = None  # how old a result may be that it takes

    @property
    def is_run(self) -> bool:
        return self.run_state is not None

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of the inputs in the database."""
        return len(self.tensors) + sum(len(each or b"") for each in (self.parameters, self.metadata, self.request))

    @property
    def held_bytes(self) -> int:
        """Return the bytes of the inputs in memory."""
        return self.stored_bytes + sum(len(large.data) for large in self.large_inputs)

    @property
    def input_bytes(self) -> int:
        """Return the bytes that count for the tenant's limit while the job waits."""
        return self.stored_bytes + self.file_bytes

    @property
    def callback_event_list(self) -> str | None:
        """Return the callback's events with commas: an array of arrays cannot be unnested."""
        return None if self.callback_events is None else ",".join(self.callback_events)

    @property
    def input_file_list(self) -> str | None:
        """Return the files that it reads, with commas."""
        return ",".join(sorted({str(file.id) for file in self.files})) or None
