"""The file of results: a line for each item that has ended."""

import shlex
from pathlib import Path
from typing import Any

import msgspec

from charonia import APIError, CharoniaError, InvalidInput
from charonia.cli.arguments import InvalidArgument
from charonia.cli.results import to_json
from charonia.errors import JobError
from charonia.journal import sync
from charonia.results import Done
from charonia.schemas import Failure

REFUSED = "refused"


class ResultError(msgspec.Struct, frozen=True):
    """Why an item has no outputs."""

    code: str
    message: str


class ResultLine(msgspec.Struct, frozen=True):
    """The result of an item. `status` is that of its job, or `refused` if it has none."""

    index: int
    custom_id: str | None
    job: str | None
    status: str
    outputs: dict[str, Any] | None
    error: ResultError | None


class Written(msgspec.Struct, frozen=True):
    """What is read again of a line."""

    index: int
    status: str
    error: ResultError | None = None


DECODER = msgspec.json.Decoder(Written)


class ResultFile:
    """Appends lines to the file of results, and counts them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a+b")
        self.written = 0
        self.failed = 0
        self.first_failure: Written | ResultLine | None = None

    def scan(self, total: int) -> bytearray:
        """Return a 1 for each of `total` items that has a line. Remove an incomplete line at the end.

        Raise InvalidArgument if the lines are not of this run.
        """
        found = bytearray(total)
        end = 0
        self._file.seek(0)
        for text in self._file:
            try:
                line = DECODER.decode(text)
            except msgspec.DecodeError:
                break
            if not text.endswith(b"\n"):
                break
            if not 0 <= line.index < total or found[line.index]:
                raise InvalidArgument(
                    f"{self.path} has a result for item {line.index} that is not of this run; "
                    "put the file back as it was, or begin anew with --restart"
                )
            found[line.index] = 1
            self._count(line)
            end += len(text)
        self._file.truncate(end)
        return found

    def write(self, line: ResultLine) -> None:
        """Append a line."""
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._count(line)

    def flush(self) -> None:
        """Let other programs see the lines."""
        self._file.flush()

    def finish(self) -> None:
        """Wait until the disk has all lines."""
        sync(self._file)

    def clear(self) -> None:
        """Remove all lines."""
        self._file.truncate(0)
        sync(self._file)

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._file.close()

    def _count(self, line: Written | ResultLine) -> None:
        self.written += 1
        if line.status != "succeeded":
            self.failed += 1
            self.first_failure = self.first_failure or line


def make_line(done: Done, custom_id: str | None) -> ResultLine:
    """Return the line of an item that has ended."""
    if done.job is None:
        failure = explain(done.error) if done.error else Failure("internal", "the gateway gives no reason")
        return make_refusal(done.index, custom_id, failure)
    job, outputs, error = done.job, None, None
    if done.error is not None:
        failure = explain(done.error)
        error = ResultError(failure.code, failure.message)
    elif job.outputs is None:
        error = ResultError(
            job.outputs_omitted or "internal", f"the outputs are not there; see charonia job {shlex.quote(job.id)}"
        )
    else:
        outputs = to_json(done.result)["outputs"]
    return ResultLine(done.index, custom_id, job.id, job.status, outputs, error)


def make_refusal(index: int, custom_id: str | None, failure: Failure) -> ResultLine:
    """Return the line of an item without a job."""
    return ResultLine(index, custom_id, None, REFUSED, None, ResultError(failure.code, failure.message))


def explain(error: CharoniaError) -> Failure:
    """Return the code and the message of an error."""
    if isinstance(error, JobError):
        return Failure(error.code, error.message)
    if isinstance(error, APIError):
        return Failure(error.code, "; ".join([error.detail, *map(str, error.errors)]))
    return Failure("invalid_input" if isinstance(error, InvalidInput) else "internal", str(error))
