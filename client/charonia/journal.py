"""What a run of many items has submitted, in a file: so that a killed run goes on and submits nothing twice."""

import contextlib
import os
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO

import msgspec

from charonia.errors import InvalidInput, ResumeError
from charonia.journal_records import Beginning, Chunk, Dropped, Planned, Record, Submitted, read_record
from charonia.schemas import FieldProblem

if sys.platform != "win32":
    import fcntl

KEY_LIFE = timedelta(hours=23)  # for which the gateway surely knows an Idempotency-Key
START = b'{"is":"begin",'  # of each journal


class Journal:
    """The records of a run: appended, and on the disk before the run goes on."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raise ResumeError if another run uses it, or if it is no journal."""
        self.path = path
        self._file: BinaryIO = path.open("a+b")
        try:
            lock(self._file)
        except OSError:
            self._file.close()
            raise ResumeError(f"another run writes to {path}; wait for its end, or end it") from None
        self._file.seek(0)
        if (begin := self._file.read(len(START))) != START[: len(begin)]:  # a killed run may have written a part of it
            self._file.close()
            raise ResumeError(f"{path} has something else than the progress of a run; name another file")
        self._cut()

    def is_stale(self) -> bool:
        """Whether the file is deleted: a command that ended has done so before this one locked it."""
        return os.fstat(self._file.fileno()).st_nlink == 0

    def append(self, record: Record) -> None:
        """Write a record, and wait until the disk has it."""
        self._file.write(msgspec.json.encode(record) + b"\n")
        sync(self._file)

    def clear(self) -> None:
        """Forget all."""
        self._file.truncate(0)

    def close(self) -> None:
        """Let another command use the file."""
        self._file.close()

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink()

    def begin(self, now: Beginning) -> bool:
        """Note what the run is, and return whether it goes on. Raise ResumeError if an earlier one was another."""
        earlier = self.find_beginning()
        if earlier is None:
            self.append(now)
            return False
        if differences := earlier.compare(now):
            text = f"this run began with other arguments: {'; '.join(differences)}. Give the same to go on"
            raise ResumeError(text, self.path)
        return True

    def check_age(self, planned: Planned) -> None:
        """Raise ResumeError if nobody can know whether a planned chunk was submitted."""
        if datetime.now(timezone.utc) - planned.at > KEY_LIFE:
            last = planned.first + planned.count - 1
            raise ResumeError(
                f"it is not known whether the items {planned.first} to {last} were submitted: that was over 23 hours "
                f"ago, at {planned.at:%Y-%m-%d %H:%M} UTC. Look among your jobs whether they were",
                self.path,
            )

    def find_beginning(self) -> Beginning | None:
        """Return the first record. Raise ResumeError if it is of a later version."""
        first = next(self._read(), None)
        return first if isinstance(first, Beginning) else None

    def has_chunks(self) -> bool:
        """Return whether anything may have been submitted."""
        return next(self.list_chunks(), None) is not None

    def list_chunks(self) -> Iterator[Chunk]:
        """Yield all chunks, in order. Only the last one may lack its answer. Raise ResumeError as `find_beginning`."""
        planned: Planned | None = None
        for record in self._read():
            if isinstance(record, Planned):
                planned = record
            elif isinstance(record, Dropped):
                planned = None
            elif isinstance(record, Submitted) and planned is not None:
                yield Chunk(planned, record)
                planned = None
        if planned is not None:
            yield Chunk(planned, None)

    def _read(self) -> Iterator[Record]:
        end = 0
        while True:
            self._file.seek(end)
            if not (text := self._file.readline()):
                return
            end += len(text)
            if (record := read_record(text)) is None:
                reason = "perhaps a later version of charonia wrote it; go on with that version"
                raise ResumeError(f"{self.path} cannot be read: {reason}", self.path)
            yield record

    def _cut(self) -> None:
        """Remove what was written when the command was killed. Its record had no effect yet."""
        end = 0
        self._file.seek(0)
        for text in self._file:
            if text.endswith(b"\n"):
                end += len(text)
        self._file.truncate(end)


@contextlib.contextmanager
def open_journal(path: Path | str, beginning: Beginning) -> Iterator[Journal]:
    """Return the journal of a run at a path. Raise ResumeError if another run uses it, or began it.

    Raise it also for a file of a later version, and InvalidInput for a folder.

    The file is deleted at the end, unless an error ends the run after it has submitted something.
    """
    if Path(path).is_dir():
        raise InvalidInput([FieldProblem("resume", f"{str(path)!r} is a folder; give the path of a file")])
    journal = Journal(Path(path))
    while journal.is_stale():
        journal.close()
        journal = Journal(Path(path))
    with contextlib.closing(journal):
        if not journal.has_chunks():  # any run may begin
            journal.clear()
        try:
            journal.begin(beginning)
            sync_folder(journal.path.absolute().parent)
            yield journal
            journal.remove()
        except BaseException:
            if not journal.has_chunks():
                journal.remove()
            raise


def lock(file: BinaryIO) -> None:
    """Keep a file for this process until it ends. Raise OSError if another one has it."""
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync(file: BinaryIO) -> None:
    """Wait until the disk has what was written."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of new files."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
