"""The parts of a job that are objects of their own, as clients and receivers see them."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from common.pipelines.run_state import StepStatus


class Metrics(msgspec.Struct, frozen=True):
    """How long the parts of a job took, in whole milliseconds. Each is null until it is known."""

    queue_ms: int | None
    """From when the job could run to the start of its latest attempt. Null while it waits for the next attempt."""
    inference_ms: int | None
    """The latest attempt as its dispatcher saw it, from the call of Triton to the outputs as JSON.

    Null if that failed. It includes the wait in Triton's own queue: Triton does not report that for a single request. A
    run of a pipeline has the sum of its steps' jobs that succeeded since it began, or was retried.
    """
    total_ms: int | None
    """From the submit to the end of the job."""


class AttemptFailure(msgspec.Struct, frozen=True):
    """Why an attempt failed."""

    code: str
    """A stable error code. The reference lists the codes of jobs and of deliveries."""
    message: str
    """A sentence about the error, for people. It may change."""


class RunStep(msgspec.Struct, frozen=True):
    """A step of a run."""

    status: StepStatus
    """The state: `waiting` for other steps, `running` while its jobs wait or run, or how it ended."""
    total: int | None
    """How many elements the step has: 1 without `for_each`. Null until it begins."""
    done: int
    """How many of the elements have succeeded."""
    job: str | None
    """The job of a step without `for_each`. Null until the step begins, and with `for_each`: list the jobs then."""


WaitCode = Literal[
    "slot", "schedule", "backoff", "triton", "dispatcher", "paused", "probation", "same_job", "model_loading"
]


class WaitingFor(msgspec.Struct, frozen=True):
    """Why a queued job does not run yet."""

    code: WaitCode
    """The reason."""
    detail: str
    """A sentence about the reason."""
    job: str | msgspec.UnsetType = msgspec.UNSET
    """With `same_job`, the job whose result this one waits for. Absent until it is known, and with other reasons."""


class Urls(msgspec.Struct, frozen=True):
    """The URLs of a job. They are paths, unless `CHARONIA_PUBLIC_URL` is set."""

    self: str
    """The job itself."""
    cancel: str
    """`POST` cancels the job."""
    events: str
    """The history of the job, as a list or a stream."""
    deliveries: str
    """The webhooks sent for the job."""
    trace: Annotated[str, Meta(extra_json_schema={"format": "uri"})] | None
    """The trace in a user interface; null unless `CHARONIA_TRACE_URL` is set."""
