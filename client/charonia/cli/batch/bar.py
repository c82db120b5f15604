"""The progress bar of a run, on a terminal. Elsewhere it only tells of outages."""

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from charonia import CharoniaError
from charonia.cli.session import Session
from charonia.cli.terminal.tables import show_seconds

LEAST_SECONDS = 1.0  # of a run until its rate means something
BAR_WIDTH = 20  # so that the ^C of a terminal fits beside it


class Bar:
    """Shows how many items have ended and failed, how fast, and how long the others take."""

    def __init__(self, session: Session, model: str) -> None:
        self._session = session
        self._model = model
        self._is_away = False
        self._task: TaskID | None = None
        self.is_seen = session.err.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=BAR_WIDTH),
            MofNCompleteColumn(),
            NumbersColumn(),
            console=session.err,
            disable=not self.is_seen,
        )

    def __enter__(self) -> "Bar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, total: int | None, written: int, failed: int) -> None:
        """Show the bar. `written` items have a result from before."""
        self._task = self._progress.add_task(self._model, total=total, completed=written, failed=failed)
        self._progress.start()

    def show(self, written: int, failed: int) -> None:
        """Show how many items have a result, and how many of them failed."""
        if self._task is not None:
            self._progress.update(self._task, completed=written, failed=failed)

    def show_outage(self, error: CharoniaError) -> None:
        """Tell once why nothing goes on."""
        if not self._is_away:
            self._is_away = True
            self._session.note(f"{error}\nThe run goes on when the gateway does. Ctrl-C ends it; it can go on later.")

    def end_outage(self) -> None:
        """Tell that it goes on."""
        if self._is_away:
            self._is_away = False
            self._session.note("going on")


class NumbersColumn(ProgressColumn):
    """How many items failed, how many end a second, and the time left."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        failed = task.fields["failed"]
        parts = [Text(f"{failed} failed", "red")] if failed else []
        if task.speed and (task.elapsed or 0.0) >= LEAST_SECONDS:
            parts.append(Text(f"{task.speed:.{0 if task.speed >= 10 else 1}f}/s"))
        if task.time_remaining is not None and not task.finished:
            parts.append(Text(f"{show_seconds(task.time_remaining)} left"))
        return Text(" · ").join(parts)
