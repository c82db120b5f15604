"""Names a job in the errors of its wait, and of reading its outputs."""

from collections.abc import Iterator
from contextlib import contextmanager

from charonia.errors import CharoniaError, DeadlineExceeded


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
