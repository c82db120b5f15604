"""Restarts parts of a stack that runs: because somebody asks for it in another terminal, or because code changed."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deploy.local.errors import NotReady

ASKED_SECONDS = 90.0  # until a part has stopped, and is ready again
POLL_SECONDS = 0.1
SUFFIXES = (".py", ".sql", ".js", ".css", ".html")
SOURCES: Mapping[str, Sequence[str]] = {
    "gateway": ("services/gateway", "common", "console"),
    "dispatcher": ("services/dispatcher", "common"),
    "notifier": ("services/notifier", "common"),
}
SCHEMA: Mapping[str, Sequence[str]] = {"schema": ("common/postgres/migrations",)}


class Requests:
    """A file for each part that is to be restarted. `make up` removes it once the part is ready, or writes why not."""

    def __init__(self, stack_dir: Path) -> None:
        self._folder = stack_dir / "restarts"

    def clear(self) -> None:
        """Forget what an earlier stack left."""
        for file in self._list():
            file.unlink(missing_ok=True)

    def ask(self, name: str) -> None:
        """Ask for a restart, and return when it is done. Raise NotReady if it fails or takes too long."""
        self._folder.mkdir(exist_ok=True)
        file = self._folder / name
        file.write_text("")  # it may have a failure that nobody has read
        deadline = time.monotonic() + ASKED_SECONDS
        with suppress(FileNotFoundError):  # it is done
            while True:
                if failure := file.read_text():
                    file.unlink(missing_ok=True)
                    raise NotReady(failure)
                if time.monotonic() > deadline:
                    raise NotReady(f"{name} is not ready after {ASKED_SECONDS:g} s: see the terminal of `make up`")
                time.sleep(POLL_SECONDS)

    def take(self) -> list[str]:
        """Return the parts that are to be restarted."""
        found = []
        for file in self._list():
            with suppress(FileNotFoundError):  # who asked has read why it failed
                if not file.stat().st_size:
                    found.append(file.name)
        return sorted(found)

    def _list(self) -> list[Path]:
        return [*self._folder.iterdir()] if self._folder.exists() else []

    def note_done(self, name: str) -> None:
        with suppress(FileNotFoundError):
            (self._folder / name).unlink()

    def note_failed(self, name: str, reason: str) -> None:
        """Tell who asked, if somebody did."""
        if (file := self._folder / name).exists():
            file.write_text(reason)


class SourceWatch:
    """Knows which services run code that has changed, or which other `sources` have."""

    def __init__(self, root: Path, sources: Mapping[str, Sequence[str]] = SOURCES) -> None:
        self._root = root
        self._sources = sources
        self._newest = self._look()

    def find_changed(self) -> list[str]:
        """Return the kinds of services, or other sources, that have changed since the last call."""
        now = self._look()
        changed = [kind for kind in now if now[kind] != self._newest[kind]]
        self._newest = now
        return changed

    def _look(self) -> dict[str, tuple[int, int]]:
        return {kind: self._find_newest(folders) for kind, folders in self._sources.items()}

    def _find_newest(self, folders: Iterable[str]) -> tuple[int, int]:
        """Return how many files there are, and when the newest was written."""
        times = []
        for folder in folders:
            for file in (self._root / folder).rglob("*"):
                if file.suffix in SUFFIXES:
                    with suppress(FileNotFoundError):  # an editor replaces it just now
                        times.append(file.stat().st_mtime_ns)
        return len(times), max(times, default=0)
