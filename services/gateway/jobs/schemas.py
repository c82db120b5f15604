"""Request and response bodies of the job calls, besides the Job itself.

Unknown fields are refused, so a typo never passes.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from common.event_types import JOB_EVENT_TYPES
from common.ids import JobId
from common.job_options import Name, Parameters, RetryOptions, Reuse, Timeout
from common.job_states import Priority
from common.views.job import JobView, Time
from common.views.job_parts import AttemptFailure
from common.views.outputs import Outputs
from services.gateway.events.event_types import document_patterns
from services.gateway.jobs.inputs.schemas import InputTensor

ATTEMPT_TIMEOUT = 600.0  # seconds
ATTEMPT_STATUSES = ["succeeded", "failed", "canceled", "returned"]
CallbackPattern = Annotated[str, Meta(max_length=100, extra_json_schema=document_patterns(JOB_EVENT_TYPES))]
HTTP_URL = r"^[Hh][Tt][Tt][Pp][Ss]?://[^ #\\]+$"
Url = Annotated[str, Meta(min_length=1, max_length=2048, extra_json_schema={"pattern": HTTP_URL})]


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects failed jobs. A missing field matches everything."""

    model: Name | None = None
    """Only jobs of this model."""
    error: Name | None = None
    """Only jobs that failed with this error code."""
    created_after: Annotated[datetime, Meta(tz=True)] | None = None
    """Only jobs that were submitted at this time or later."""
    created_before: Annotated[datetime, Meta(tz=True)] | None = None
    """Only jobs that were submitted before this time."""


class Callback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to send the events of a job."""

    url: Url
    """The URL to send to: https, to a public address."""
    events: Annotated[list[CallbackPattern], Meta(min_length=1, max_length=10)] = msgspec.field(
        default_factory=lambda: ["job.succeeded", "job.failed", "job.canceled", "job.expired"]
    )
    """The events to send, by type or a pattern such as `job.*`. By default, those that end the job."""


class RetryRule(RetryOptions, frozen=True, forbid_unknown_fields=True):
    """How to retry failed attempts: exponential backoff with full jitter."""


class OutputTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the outputs of a job go."""

    location: Annotated[str, Meta(min_length=1, max_length=1024, extra_json_schema={"pattern": "^s3://"})]
    """A folder of a bucket, such as `s3://bucket/folder/`. An operator must let you write there.

    Each output is an object `<job id>/<number>/<name>` below it. Charonia never deletes them.
    """


class SubmitJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to submit."""

    model: Name
    """The model to run."""
    version: Name | None = None
    """The version to run. By default the newest one."""
    inputs: dict[str, Any] | list[InputTensor]
    """The inputs by name: numbers, strings, booleans, nested lists of them, or `{"base64"}` with raw bytes.

    `{"file": "file_…"}` is a whole file: one element of BYTES, raw little-endian numbers, or an .npy file. Raw numbers
    may have a `shape` and a `datatype` beside the `file`. `{"url": "https://…"}` is fetched at each attempt: one
    element of BYTES, or raw numbers with a `shape`. `s3://…` is read as a file, where operators allow it. A list of
    tensors, as in the Open Inference Protocol, works too.
    """
    parameters: Parameters | None = None
    """Request parameters for the model, as Triton has them: at most 100, and 64 KiB. Not those of Triton itself."""
    priority: Priority = Priority.NORMAL
    """Jobs of a higher priority run first."""
    webhook: Callback | None = None
    """Where to send the events of this job."""
    output: OutputTarget | None = None
    """Where all outputs go. By default the job has them, and files those that are large."""
    metadata: dict[str, Any] | None = None
    """Anything of yours, at most 16 KiB. The job and its webhooks return it unchanged."""
    run_at: Annotated[datetime, Meta(tz=True)] | None = None
    """The earliest start, at most 366 days from now. By default, the job may start at once."""
    expires_in: Annotated[float, Meta(gt=0, le=31_536_000)] | None = None
    """How many seconds the job may wait before its first start. After that it is `expired`."""
    timeout: Timeout | msgspec.UnsetType = msgspec.UNSET
    """How many seconds one attempt may run, by default 600; of a pipeline, the whole run, by default 86,400."""
    retry: RetryRule = RetryRule()
    """How to retry failed attempts."""
    fallback_model: Name | None = None
    """A model to try once when all attempts have failed."""
    retain: Annotated[float, Meta(ge=1, le=31_536_000)] | None = None
    """How many seconds the job is kept after its end. The server may keep it for a shorter time."""
    reuse: Reuse | msgspec.UnsetType | None = msgspec.UNSET
    """Whether the job may take the result of another job of yours with the same inputs, model and parameters.

    By default what the model's `charonia.reuse_seconds` says; without that, and with null, the job runs itself. It has
    no effect where it cannot be right: for inputs at URLs, `output`, and a `run_at` in the future.
    """

    @property
    def attempt_timeout(self) -> float:
        return ATTEMPT_TIMEOUT if isinstance(self.timeout, msgspec.UnsetType) else self.timeout


class RetryJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to retry the job."""

    target_model: Name | None = None
    """The model that the retry runs. By default, the model that the job has."""


class OutputsView(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outputs of a job."""

    id: str
    """The id of the job."""
    outputs: Outputs | None
    """The outputs, in the order of the model's configuration; null if `outputs_omitted` says why."""
    outputs_omitted: Literal["erased"] | msgspec.UnsetType = msgspec.UNSET
    """Why `outputs` is null: `erased`."""


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """An ended attempt of a job, or several in a row that Triton refused with the same error."""

    attempt: int
    """The number of the attempt, from 1; of the last one if there are several."""
    count: int
    """How many attempts the entry stands for."""
    status: Annotated[str, Meta(extra_json_schema={"enum": ATTEMPT_STATUSES})]
    """How the attempt ended. A `returned` attempt does not count towards `max_attempts`."""
    model: str
    """The model that ran."""
    worker: str
    """The dispatcher that made the attempt, by a name that says nothing of its host."""
    started_at: Time
    """When the attempt started."""
    finished_at: Time
    """When the attempt ended."""
    duration_ms: int
    """How long the attempt took, in milliseconds."""
    error: AttemptFailure | None
    """Why the attempt failed or was returned; null without an error."""


class AttemptList(msgspec.Struct, frozen=True):
    """The ended attempts of a job."""

    items: list[AttemptView]
    """The attempts, oldest first, at most the latest 1000."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one. So far there is one page."""


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs."""

    items: list[JobView]
    """The jobs, newest first, without their outputs (see `outputs_url`), queue positions and webhook statuses."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""


class DeadLetterPage(msgspec.Struct, frozen=True):
    """A page of dead letters."""

    items: list[JobView]
    """The jobs that failed for good, newest first, without their webhook statuses."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to replay, and how. One of `ids` and `filter` is required."""

    ids: Annotated[list[JobId], Meta(min_length=1, max_length=1000)] | None = None
    """The jobs to replay."""
    filter: DeadFilter | None = None
    """Replays the newest jobs that match; `{}` is all of them. It cannot be combined with `ids`."""
    target_model: Name | None = None
    """The model that the replayed jobs run. By default, each keeps its model."""
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """How many jobs the filter may select, by default 100. It is only for a filter."""


class Skipped(msgspec.Struct, frozen=True):
    """A job that was not replayed, and why."""

    id: str
    """The job."""
    code: Literal["not_found", "not_failed", "erased", "inputs_refused", "step", "steps_not_ended", "steps_removed"]
    """Why: it is no job of yours, it is no failed job, it was erased, or `target_model` does not accept its inputs.

    `step`: it is part of a run; retry that. `steps_not_ended`: a job of the run's steps still runs. `steps_removed`:
    retention has removed what the run's steps have made.
    """
    detail: str
    """The reason for people, such as the input that does not fit."""


class Replayed(msgspec.Struct, frozen=True):
    """What a replay did."""

    replayed: list[str]
    """The jobs that are queued again."""
    skipped: list[Skipped]
    """The jobs that are not, and why."""
    remaining: bool
    """Whether the filter matches more jobs."""
