"""What the API answers. A newer gateway may add fields, which are ignored, and values such as a status."""

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import msgspec

Status = Literal["queued", "processing", "canceling", "succeeded", "failed", "canceled", "expired"]
"""The states of a job to ask for."""
Priority = Literal["high", "normal", "low"]
"""Which jobs run first."""
_OPEN = frozenset({"queued", "processing", "canceling"})
_TERMINAL = frozenset({"succeeded", "failed", "canceled", "expired"})

Item = TypeVar("Item")


class ApiObject(msgspec.Struct, frozen=True, dict=True):
    """An object of the API. For the command line, it keeps its JSON, which may have fields that it lacks."""

    @property
    def _json(self) -> bytes | None:
        return self.__dict__.get("json")

    def _keep(self, body: bytes) -> None:
        self.__dict__["json"] = body


class FieldProblem(msgspec.Struct, frozen=True):
    """What is wrong with one field. `pointer` is a JSON pointer (RFC 6901), or the name of a parameter."""

    pointer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


class Output(msgspec.Struct, frozen=True):
    """An output tensor; `data` is flat and row-major.

    `response` numbers those of a streaming model from 0. For any other model it is -1.

    A large one has no `data`. It is in a `file` of `size` bytes, and its `download_url` needs no key for 7 days.
    `content` is that of the file once it is downloaded: raw elements, row-major and little-endian. If the submit named
    a location, the output is the object at `location` in your bucket, in the same form.
    """

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] = []
    response: int = -1
    file: str | None = None
    download_url: str | None = None
    size: int | None = None
    sha256: str | None = None
    content: bytes | None = None
    location: str | None = None

    @property
    def has_data(self) -> bool:
        """Whether it is neither in a file nor at a location."""
        return self.file is None and self.location is None


class Failure(msgspec.Struct, frozen=True):
    """Why a job, or its latest attempt, failed."""

    code: str
    message: str
    retryable: bool = False


class AttemptFailure(msgspec.Struct, frozen=True):
    """Why an attempt of a job or a delivery failed."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Metrics(msgspec.Struct, frozen=True):
    """In milliseconds; None until known."""

    queue_ms: int | None = None
    inference_ms: int | None = None
    total_ms: int | None = None


class WaitingFor(msgspec.Struct, frozen=True):
    """Why a queued job does not run yet: a stable `code`, and a sentence. `job` is the one that it waits for."""

    code: str
    detail: str
    job: str | None = None


class RunStep(msgspec.Struct, frozen=True):
    """A step of a run: its state, how many elements it has, and how many of them have succeeded.

    `total` is None until the step begins. `job` is that of a step without `for_each`, once it begins.
    """

    status: str
    total: int | None
    done: int
    job: str | None = None


class JobData(ApiObject, frozen=True, kw_only=True):
    """A job as the API shows it.

    Of a run of a pipeline, `kind` is `pipeline`, and `steps` has its steps by name. It is None in lists. The job of a
    step names its run as `parent`, and its `step`. `reused_from` is the job that made the outputs, if this one took
    them.
    """

    id: str
    status: str
    model: str
    version: str | None
    priority: str
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    outputs: list[Output] | None
    outputs_omitted: str | None = None
    outputs_url: str | None = None
    error: Failure | None
    queue_position: int | None
    waiting_for: WaitingFor | None = None
    webhook_status: str | None
    metadata: dict[str, Any]
    trace_id: str
    metrics: Metrics
    kind: str | None = None
    steps: dict[str, RunStep] | None = None
    parent: str | None = None
    step: str | None = None
    reused_from: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is in its final state, whatever that is."""
        return self.finished_at is not None


class JobOutputs(msgspec.Struct, frozen=True):
    """The answer to a read of a job's outputs."""

    id: str
    outputs: list[Output] | None
    outputs_omitted: str | None = None


class Input(msgspec.Struct, frozen=True):
    """An input tensor of a job. It has `data`, or `file` or `url` says where its content is.

    `url` is the one that the submit named: `https://…` without its query, or `s3://…`. The `download_url` of a file
    needs no key for 7 days.
    """

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    file: str | None = None
    download_url: str | None = None
    url: str | None = None
    offset: int = 0
    size: int | None = None


class JobInputs(msgspec.Struct, frozen=True):
    """The answer to a read of a job's inputs."""

    id: str
    inputs: list[Input] | None
    inputs_omitted: str | None = None


class AttemptData(msgspec.Struct, frozen=True, kw_only=True):
    """An ended attempt of a job; `count` attempts in a row ended in the same way."""

    attempt: int
    count: int
    status: str
    model: str
    worker: str
    started_at: datetime
    finished_at: datetime
    duration_ms: int
    error: AttemptFailure | None


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """A page of a list; `next_cursor` is None on the last one."""

    items: list[Item]
    next_cursor: str | None = None


class FileData(ApiObject, frozen=True, kw_only=True):
    """A file. It may be an input of jobs. `sha256` is in hexadecimal; None if only the object store read the file.

    Without `expires_at`, it is kept as long as its job.
    """

    id: str
    size: int
    sha256: str | None
    content_type: str
    created_at: datetime
    expires_at: datetime | None


class BatchData(ApiObject, frozen=True, kw_only=True):
    """A batch, and its jobs by status."""

    id: str
    status: str
    total: int
    accepted: int
    counts: dict[str, int]
    created_at: datetime
    finished_at: datetime | None
    canceled_at: datetime | None = None

    @property
    def ended(self) -> int:
        """How many items have a final result; refused items count.

        Jobs in a state of a newer gateway count once the batch is completed.
        """
        return self.total - sum(count for status, count in self.counts.items() if self._is_open(status))

    def _is_open(self, status: str) -> bool:
        return status in _OPEN or (self.finished_at is None and status not in _TERMINAL)


class RefusedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a batch that was refused. `index` is its position."""

    index: int
    custom_id: str | None
    type: str
    detail: str
    errors: list[FieldProblem] = []


class BatchAccepted(BatchData, frozen=True, kw_only=True):
    """A new batch, and its refused items."""

    errors: list[RefusedItem]


class ItemProblem(msgspec.Struct, frozen=True):
    """Why an item of a batch has no job."""

    type: str
    detail: str
    errors: list[FieldProblem] = []


class BatchLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the results of a batch: a job, or why there is none."""

    index: int
    custom_id: str | None
    job: JobData | None
    error: ItemProblem | None


class Skipped(msgspec.Struct, frozen=True):
    """A job that was not replayed, and why. A `code` is such as `not_failed`, and `detail` is for people."""

    id: str
    code: str
    detail: str


class Replayed(msgspec.Struct, frozen=True):
    """The jobs that a replay queued again and those it could not; whether the filter matches more."""

    replayed: list[str]
    skipped: list[Skipped]
    remaining: bool


class Problem(msgspec.Struct, frozen=True):
    """The body of an error (RFC 9457)."""

    type: str = ""
    detail: str = ""
    errors: list[FieldProblem] = []

    @property
    def code(self) -> str:
        return self.type.rpartition(":")[2]
