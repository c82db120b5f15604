"""Tensors of runs that are in files: those that steps have made, and those that are too large for a row."""

import asyncio
import math
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from common import ids
from common.errors import CharoniaError, StoreFull, StoreNotFound, StoreRangeInvalid, StoreUnavailable
from common.jobs.input_files import KeptFile, LargeInputsLost, drop_large_inputs, keep_files
from common.jobs.run import Run
from common.object_store.keys import file_key
from common.object_store.pauses import Pauses
from common.object_store.store import ObjectStore
from common.pipelines.elements import LENGTH_BYTES
from common.postgres import sql
from common.postgres.database import Connection, Database
from common.settings import INLINE_SIZE
from common.telemetry.logs import Log
from common.tensors import Datatype, FileContent, Tensor

QUERIES = sql.load("common.runs", "tensor_files.sql")
STORE_SECONDS = 10.0  # for what one transaction reads or writes at a time: less than the transaction may take
KEPT_SECONDS = 60.0  # longer than the transaction that keeps a file

log = Log("runs")


class CannotGoOn(CharoniaError):
    """A run fails although no job did: outputs that it needs are gone, or too large. One step may have to start."""

    def __init__(self, text: str, step: str | None = None) -> None:
        super().__init__(text if step is None else f"step '{step}' cannot start: {text}")
        self.step = step


class TensorFiles:
    """Reads and writes the content of tensors in the object store.

    After a failure, calls fail at once for some seconds, so that not each run waits for a store that is away.
    """

    def __init__(
        self, database: Database, objects: ObjectStore, inline: int = INLINE_SIZE, pauses: Pauses | None = None
    ) -> None:
        """A tensor of up to `inline` bytes stays in its row."""
        self._pauses = pauses or Pauses()
        self._database = database
        self._objects = objects
        self._inline = inline
        self._written: dict[Connection, list[UUID]] = {}  # files, by the transaction that keeps them

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Begin a transaction, in which runs are carried on. If it fails, a sweeper deletes what it has written."""
        written: list[UUID] = []
        try:
            async with self._database.transaction() as connection:
                self._written[connection] = written
                try:
                    yield connection
                finally:
                    del self._written[connection]
        except BaseException:
            if written:
                await asyncio.shield(self._drop(written))
            raise

    async def _drop(self, files: Sequence[UUID]) -> None:
        try:
            await drop_large_inputs(self._database, files)
        except CharoniaError as error:  # a sweeper finds them once their time is over
            log.warning("file.upload_left", file_id=ids.encode(ids.Kind.FILE, files[0]), error=error)

    @asynccontextmanager
    async def _reach_store(self) -> AsyncIterator[None]:
        """Raise StoreUnavailable if the block takes longer than STORE_SECONDS, or at once while the store is away."""
        if self._pauses.left() > 0:
            raise StoreUnavailable("The object store did not answer just now.")
        try:
            async with asyncio.timeout(STORE_SECONDS):
                yield
        except TimeoutError as error:
            self._pauses.note_failure()
            raise StoreUnavailable(f"The object store did not answer within {STORE_SECONDS:g} s.") from error
        except StoreUnavailable as error:
            if not isinstance(error, StoreFull):  # others' may still fit
                self._pauses.note_failure()
            raise
        self._pauses.note_success()

    async def read(self, run: Run, tensor: Tensor, start: int, end: int) -> bytes:
        """Return bytes of a tensor in a file, as Triton takes them. Raises CannotGoOn and StoreUnavailable."""
        content = tensor.data
        assert isinstance(content, FileContent), "it is in a file of Charonia"
        begin, stop = content.offset + start, content.offset + min(end, content.size)
        if begin >= stop:
            return b""
        try:
            async with self._reach_store():
                reader = await self._objects.read(file_key(run.tenant_id, content.file_id), begin, stop)
                return b"".join([piece async for piece in reader.pieces])
        except (StoreNotFound, StoreRangeInvalid) as error:
            raise CannotGoOn(f"the file of '{tensor.name}' was deleted; submit a new job") from error

    async def load(self, run: Run, tensor: Tensor) -> Tensor:
        """Return a tensor with its data. Raises as `read` does."""
        content = tensor.data
        if not isinstance(content, FileContent):
            return tensor
        data = await self.read(run, tensor, 0, content.size)
        if tensor.datatype is Datatype.BYTES and not content.inline:
            data = struct.pack("<I", len(data)) + data
        return Tensor(tensor.name, tensor.datatype, tensor.shape, data)

    async def keep(self, connection: Connection, run: Run, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Put those of the tensors that are too large for a row into files of a locked run, and return all of them.

        `connection` is that of `transaction`. The rows of the files are committed before their objects are written, so
        a sweeper finds what a killed process leaves. Raises StoreUnavailable.
        """
        large = {
            index: cut_length(tensor)
            for index, tensor in enumerate(tensors)
            if isinstance(tensor.data, bytes) and len(tensor.data) > self._inline
        }
        if not large:
            return [*tensors]
        files = {index: ids.new() for index in large}
        self._written[connection] += files.values()
        sizes = [len(data) for data in large.values()]
        await self._database.fetch(QUERIES["begin_files"], run.tenant_id, [*files.values()], sizes, KEPT_SECONDS)
        kept = []
        async with self._reach_store():
            for index, data in large.items():
                stored = await self._objects.put(file_key(run.tenant_id, files[index]), send(data))
                kept.append(KeptFile(run.id, files[index], stored.sha256))
        try:
            await keep_files(connection, kept)
        except LargeInputsLost as error:
            raise StoreUnavailable(f"The object store took longer than {KEPT_SECONDS:g} s.") from error
        return [
            refer(tensor, files[index], len(large[index])) if index in files else tensor
            for index, tensor in enumerate(tensors)
        ]


def is_single(tensor: Tensor) -> bool:
    """Return whether a tensor is one element of BYTES. Its file has no length in it."""
    return tensor.datatype is Datatype.BYTES and math.prod(tensor.shape) == 1


def cut_length(tensor: Tensor) -> bytes:
    """Return the content of the file of a tensor."""
    assert isinstance(tensor.data, bytes), "it is not in a file yet"
    return tensor.data[LENGTH_BYTES:] if is_single(tensor) else tensor.data


def refer(tensor: Tensor, file: UUID, size: int) -> Tensor:
    """Return a tensor whose content is in a file."""
    several = tensor.datatype is Datatype.BYTES and not is_single(tensor)
    return Tensor(tensor.name, tensor.datatype, tensor.shape, FileContent(file, 0, size, inline=several))


async def send(data: bytes) -> AsyncIterator[bytes]:
    yield data
