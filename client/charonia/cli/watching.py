"""Follows a job: its state on one line, and the text of a streaming model as it comes."""

from collections.abc import Sequence

from charonia import Job, JobEvent, ProgressEvent, StepEvent
from charonia.cli.session import Session
from charonia.cli.terminal.state_line import StateLine
from charonia.events import Event, is_end, is_of
from charonia.results import Outputs, Result
from charonia.schemas import Output


class Watch:
    """Follows one job. `has_printed` tells whether its text is on the terminal.

    `rest` is the first response whose text is in a file. Neither it nor what follows it is printed.
    """

    def __init__(self, session: Session, job: Job, *, as_text: bool) -> None:
        self._session = session
        self._job = job
        self._as_text = as_text
        self._line = StateLine(session, job.id)
        self.has_printed = False
        self.rest: int | None = None

    def run(self, timeout: float) -> None:
        """Return once the job has ended. Raise DeadlineExceeded after `timeout` seconds."""
        with self._line:
            self._line.show(f"{self._job.id} {self._job.status}", waits=True)
            for event in self._job.events(timeout=timeout):
                self._take(event)
        if self.has_printed and self.rest is None:
            self._session.out.print()

    def print_rest(self, result: Result) -> None:
        """Print the texts that `run` did not."""
        tensors = [each for each in result.tensors if self.rest is None or each.response >= self.rest]
        self._session.print_text(Outputs(tensors).text, raw=self._as_text)

    def _take(self, event: Event) -> None:
        if not is_of(event, self._job.id):
            return
        if isinstance(event, StepEvent):
            status = event.type.partition(".")[2]
            self._line.show(f"{event.data.id} {event.data.status} · step {event.data.step} {status}")
        if isinstance(event, ProgressEvent) and event.type == "job.output":
            self._print_part(event.data.outputs)
        elif isinstance(event, (ProgressEvent, JobEvent)):
            attempt = event.data.attempt or 1
            if event.type == "job.started":
                self._begin(attempt)
            number = f", attempt {attempt}" if attempt > 1 else ""
            self._line.show(f"{event.data.id} {event.data.status}{number}", waits=event.data.status == "queued")
            if is_end(event):
                self._line.stop()
                if event.type != "job.succeeded":
                    self.rest = None

    def _begin(self, attempt: int) -> None:
        """Forget the attempt before."""
        if self.has_printed:
            self._session.out.print()
            self._session.note(f"attempt {attempt} begins again")
        self.has_printed, self.rest = False, None

    def _print_part(self, outputs: Sequence[Output]) -> None:
        """Print the text of a response, unless it or one before it is in a file."""
        if (self._session.as_json and not self._as_text) or self.rest is not None:
            return
        for each in outputs:
            if each.datatype == "BYTES" and each.file is not None:
                self.rest = each.response
                return
        if text := Outputs([each for each in outputs if each.has_data]).text:
            self._line.stop()
            self._session.print_text(text, end="", raw=self._as_text)
            self.has_printed = True
