"""What was submitted, in the file `RESULTS.progress`: so that a killed command goes on and submits nothing twice."""

import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from charonia.cli.arguments import InvalidArgument
from charonia.schemas import Failure

if sys.platform != "win32":
    import fcntl


class Beginning(msgspec.Struct, frozen=True, tag="begin", tag_field="is"):
    """The first record: what the run is. A run with other arguments must not go on with its file."""

    model: str
    url: str
    fields: dict[str, Any]


class Planned(msgspec.Struct, frozen=True, tag="planned", tag_field="is"):
    """A chunk of items that is about to be submitted: its place in the items file, and its Idempotency-Key."""

    first: int  # index of its first item
    count: int
    start: int  # bytes
    end: int
    digest: str
    key: str
    at: datetime


class Submitted(msgspec.Struct, frozen=True, tag="submitted", tag_field="is"):
    """The answer for the latest planned chunk. `refused` has the items that are not in the batch, by index."""

    batch: str | None
    refused: dict[int, Failure]


class Dropped(msgspec.Struct, frozen=True, tag="dropped", tag_field="is"):
    """The latest planned chunk was refused as a whole; its items are planned anew."""


Record = Beginning | Planned | Submitted | Dropped
DECODER = msgspec.json.Decoder(Record)


class Chunk(NamedTuple):
    """A planned chunk, and its answer, if that has arrived."""

    planned: Planned
    submitted: Submitted | None


class Journal:
    """The records of a run: appended, and on the disk before the run goes on."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raise InvalidArgument if another command uses it."""
        self.path = path
        self._file: BinaryIO = path.open("a+b")
        try:
            lock(self._file)
        except OSError:
            self._file.close()
            raise InvalidArgument(f"another `charonia batch` writes to {path}; wait for its end, or end it") from None
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

    def find_beginning(self) -> Beginning | None:
        """Return the first record."""
        first = next(self._read(), None)
        return first if isinstance(first, Beginning) else None

    def list_chunks(self) -> Iterator[Chunk]:
        """Yield all chunks, in order. Only the last one may lack its answer."""
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
            yield DECODER.decode(text)

    def _cut(self) -> None:
        """Remove what was written when the command was killed. Its record had no effect yet."""
        end = 0
        self._file.seek(0)
        for text in self._file:
            try:
                DECODER.decode(text)
            except msgspec.DecodeError:
                break
            if not text.endswith(b"\n"):
                break
            end += len(text)
        self._file.truncate(end)


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
