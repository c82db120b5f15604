"""What a job does, at the end of a terminal. It shows nothing if nobody sees it."""

import contextlib
import threading
import time
from types import TracebackType

from rich.console import Console, ConsoleOptions, RenderResult
from rich.status import Status

from charonia import CharoniaError
from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text_line
from charonia.cli.terminal.tables import show_seconds
from charonia.schemas import JobData

POLL_SECONDS = 1.0  # between two reads of the position in the queue


class Shown:
    """A state and the seconds since the command began to wait. A long reason takes several lines."""

    def __init__(self, text: str, began: float) -> None:
        self._text = text
        self._began = began

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        seconds = show_seconds(time.monotonic() - self._began)
        line = show_text_line(f"{self._text} · {seconds}")
        line.overflow = "fold"  # of a word that is wider than the terminal
        yield line


class StateLine:
    """Shows the state of a job. While the job waits, it reads the position in the queue each second."""

    def __init__(self, session: Session, job_id: str) -> None:
        self._session = session
        self._job_id = job_id
        self._waits_no_more = threading.Event()
        self._poller = threading.Thread(target=self._poll, daemon=True)
        self._began = time.monotonic()
        self._status: Status | None = session.err.status("") if session.err.is_terminal else None

    def __enter__(self) -> "StateLine":
        if self._status is not None:
            self._status.start()
            self._poller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def show(self, text: str, *, waits: bool = False) -> None:
        """Show a state."""
        if not waits:
            self._waits_no_more.set()
        status = self._status  # another thread may stop it
        if status is not None:
            status.update(Shown(text, self._began))

    def stop(self) -> None:
        """Remove the line for good, so that something else can be printed."""
        self._waits_no_more.set()
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _poll(self) -> None:
        while not self._waits_no_more.wait(POLL_SECONDS):
            with contextlib.suppress(CharoniaError, RuntimeError):  # the second: the command has closed the client
                job = self._session.client.jobs.get(self._job_id).data
                if not self._waits_no_more.is_set():
                    self.show(describe_wait(job), waits=True)


def describe_wait(job: JobData) -> str:
    """Return the state of a job that waits, in a line."""
    parts = [f"{job.id} {job.status}"]
    if job.queue_position is not None:
        parts.append(f"position {job.queue_position}")
    if job.waiting_for is not None:
        parts.append(job.waiting_for.detail)
    return " · ".join(parts)
