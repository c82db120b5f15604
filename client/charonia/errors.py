"""Every error of the library, in one tree, and what names a job in them.

Each message says what is wrong and what to do.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from charonia.schemas import FieldProblem, JobData


class CharoniaError(Exception):
    """The root of all errors of this library. `job_id` is the job that was waited for, if it is known."""

    job_id: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error as it is: its `args` are a text, not what its class is called with."""
        return _restore, (type(self), self.args), vars(self)


def _restore(kind: type[CharoniaError], args: tuple[Any, ...]) -> CharoniaError:
    return kind.__new__(kind, *args)


class ConfigurationError(CharoniaError):
    """The URL, the key or the profile is missing or wrong."""


class ResumeError(CharoniaError):
    """A run of many items cannot go on with the file of an earlier one. `reason` lacks how to begin anew, if it can."""

    def __init__(self, reason: str, path: object = None) -> None:
        super().__init__(reason if path is None else f"{reason}, or delete {path} to begin anew")
        self.reason = reason
        self.can_restart: bool = path is not None


class InvalidInput(CharoniaError, ValueError):
    """An input does not fit the model, or is too large. Nothing was sent."""

    def __init__(self, errors: Sequence[FieldProblem]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors: list[FieldProblem] = list(errors)


class ConnectionFailed(CharoniaError, ConnectionError):
    """The gateway could not be reached, or the connection broke, and no retry was possible in time."""


class DeadlineExceeded(CharoniaError, TimeoutError):
    """The call or the wait took longer than its `timeout`. A submitted job goes on."""


class InvalidResponse(CharoniaError):
    """The answer is not what the API promises. Check that the URL is that of a Charonia gateway."""


class InvalidSignature(CharoniaError):
    """A webhook is not genuine, or too old. Answer 401 and do nothing else."""


class JobError(CharoniaError):
    """A job ended without a result. `job` is its state, `attempts` how often it ran.

    It is of this class itself if it ended in a state that this version does not know.
    """

    def __init__(self, job: JobData) -> None:
        code = job.error.code if job.error else job.status
        message = job.error.message if job.error else f"the job is {job.status}"
        super().__init__(f"{job.id} {job.status}: {message} ({code}, attempt {job.attempt} of {job.max_attempts})")
        self.job_id = job.id
        self.job = job
        self.code: str = code
        self.message: str = message
        self.attempts: int = job.attempt


class JobFailed(JobError):
    """The job failed. Correct the cause that `code` names, then call `retry`."""


class JobCanceled(JobError):
    """The job was canceled. `retry` queues it again."""


class JobExpired(JobError):
    """The job did not start within its `expires_in`. `retry` queues it again."""


class APIError(CharoniaError):
    """The API refused a call.

    `code` is stable; docs/reference/errors.md lists all codes. `errors` has the invalid fields. `trace_id` is the
    request's trace, by which an operator finds it. It is None for an answer that is not the gateway's, unless the
    caller has a trace.
    """

    hint = "See docs/reference/errors.md."

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[FieldProblem] = (),
        retry_after: float | None = None,
        trace_id: str | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}. {self.hint}" if code else f"{status}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.errors: list[FieldProblem] = list(errors)
        self.retry_after = retry_after
        self.trace_id = trace_id


class Unauthorized(APIError):
    """401: the key is missing, unknown, revoked or expired."""

    hint = "Set another key in CHARONIA_KEY, or pass key=…"


class Forbidden(APIError):
    """403: the key lacks the scope, or may not run the model."""

    hint = "Use a key that has the scope and may run the model."


class NotFound(APIError):
    """404: no such object, or it belongs to another tenant."""

    hint = "Check the name or id, and that the key belongs to the right tenant."


class Conflict(APIError):
    """409: the object is not in a state for this call, not there yet, or one too many. `code` says which."""


class TooLarge(APIError):
    """413: the body is over the limit of the gateway."""

    hint = "Send less, or ask the operator to raise the limit."


class InvalidRequest(APIError):
    """400 or 422: the request is invalid; `errors` points to the fields."""

    hint = "Correct the request."


class RateLimited(APIError):
    """429: too many requests, or a full queue. The library has repeated the call until its deadline."""

    hint = "Call later, or with a longer timeout."


class Unavailable(APIError):
    """503: a dependency of Charonia is down. The library has repeated the call until its deadline."""

    hint = "Call later, or with a longer timeout."


class ServerError(APIError):
    """Another status from 500: a bug, or a proxy before the gateway."""

    hint = "Tell the operator."


BY_STATUS: dict[int, type[APIError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: InvalidRequest,
    429: RateLimited,
    503: Unavailable,
}
_BY_JOB_STATUS: dict[str, type[JobError]] = {"failed": JobFailed, "canceled": JobCanceled, "expired": JobExpired}


def make_job_error(job: JobData) -> JobError:
    """Return the error of a job that has ended without a result."""
    return _BY_JOB_STATUS.get(job.status, JobError)(job)


class KnownJob:
    """Names the job in the errors that leave a `with` statement."""

    def __init__(self, job_id: str | None = None) -> None:
        self.job_id = job_id

    def __enter__(self) -> "KnownJob":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, CharoniaError) or error.job_id or not self.job_id:
            return
        error.job_id = self.job_id
        if isinstance(error, DeadlineExceeded) and self.job_id not in str(error):
            error.args = (f"{error}. The job {self.job_id} goes on",)


@contextmanager
def known_outputs(job_id: str) -> Iterator[None]:
    """Name the job in the errors of reading its outputs, and how to read them again."""
    try:
        yield
    except CharoniaError as error:
        error.job_id = job_id
        if isinstance(error, DeadlineExceeded):
            call = f"client.jobs.get({job_id!r}).result(timeout=…)"
            error.args = (f"{error}. The outputs of {job_id} are still there; read them with {call}",)
        raise
