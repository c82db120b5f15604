"""Contents that were fetched from URLs, in temporary files: they take no memory until there is room for it."""

import asyncio
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TypeVar
from uuid import UUID

from common.fair_budget import FairBudget
from common.job_states import Failure
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.triton.errors import InferenceError

PIECE = 256 * 1024  # bytes that are read or written at a time
THREADS = 4  # of their own: a slow disk delays nothing else
WAITING_SECONDS = 1.0  # until a job that found no place is due again
FULL_SECONDS = 10.0  # the same without space on the disk: it asks its server again, and may receive a part again
WAITING = Failure("input_url_waiting", "the dispatcher has no place now for what the job fetches; the job waits", True)

T = TypeVar("T")

log = Log("inputs")


def waits(seconds: float = WAITING_SECONDS) -> InferenceError:
    """Return the refusal of an attempt that can begin later."""
    return InferenceError(WAITING, refused=True, delay=seconds)


class FetchFolder:
    """A folder for fetched contents. Its bytes are shared fairly among tenants."""

    def __init__(self, path: str, total: int) -> None:
        """`total` is in bytes."""
        self.space: FairBudget[UUID] = FairBudget(total)
        self._path = path
        self._threads = ThreadPoolExecutor(THREADS, "fetched")
        self._outage = Outage()

    def close(self) -> None:
        self._threads.shutdown()

    async def open(self, tenant_id: UUID) -> "FetchedContent":
        """Return an empty content. Raises InferenceError if the disk is full or missing."""
        return FetchedContent(self, tenant_id, await self.run(self._make_file))

    def _make_file(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self._path)

    async def run(self, work: Callable[[], T]) -> T:
        """Work on a file in a thread. Raises InferenceError for an error of the disk."""
        try:
            done = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except OSError as error:
            if self._outage.begin():
                log.error("inputs.disk_failed", error=error)
            raise waits() from error
        self._outage.end()
        return done

    def forget(self, file: IO[bytes]) -> None:
        """Close a file after the work on it, without waiting."""
        self._threads.submit(file.close)


class FetchedContent:
    """The content of one input, in a file without a name: nothing is left of it after the end of the process."""

    def __init__(self, folder: FetchFolder, tenant_id: UUID, file: IO[bytes]) -> None:
        self.size = 0
        self._folder = folder
        self._tenant_id = tenant_id
        self._file = file

    def check_space(self, size: int) -> None:
        """Raise InferenceError if the tenant has no space for this many bytes more."""
        if self._folder.space.room(self._tenant_id) < size:
            raise waits(FULL_SECONDS)

    async def write(self, piece: bytes) -> None:
        """Append a piece. Raises InferenceError if the tenant has no space for it."""
        self.check_space(len(piece))
        self._folder.space.take(self._tenant_id, len(piece))
        self.size += len(piece)
        await self._folder.run(lambda: self._file.write(piece))

    async def rewind(self) -> None:
        """Have `read` begin at the first byte."""
        await self._folder.run(lambda: self._file.seek(0))

    async def read(self) -> bytes:
        """Return the next piece, or nothing at the end. Raises InferenceError."""
        return await self._folder.run(lambda: self._file.read(PIECE))

    def close(self) -> None:
        """Remove the file."""
        self._folder.space.take(self._tenant_id, -self.size)
        self._folder.forget(self._file)
