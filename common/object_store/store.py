"""The object store: large values by reference, in a local folder or in the cloud."""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import obstore
from msgspec import Struct
from obstore.store import AzureStore, LocalStore, S3Store

from common.errors import CharoniaError, StoreDenied, StoreNotFound, StoreRangeInvalid, StoreUnavailable
from common.object_store import folder
from common.object_store.backend import ADVICE, open_backend, open_presigner, scheme_of
from common.object_store.errors import OBSTORE_ERRORS, name_error
from common.object_store.pieces import regroup
from common.object_store.reader import ObjectReader, open_cloud_object, open_local_object
from common.object_store.signed_length import sign_length
from common.telemetry.logs import Log

DEADLINE_SECONDS = 30.0
PIECE = 1024 * 1024  # bytes that pass at a time
PART = 8 * 1024 * 1024  # of a multipart upload; S3 takes 10,000 of them, which is 80 GiB
PARTS_IN_FLIGHT = 2
PAGE = 1000  # objects of a listing, and of a call that deletes
DELETES_IN_FLIGHT = 10
HASH_THREADS = 2  # a core hashes more than a GiB a second
SYNC_THREADS = 16  # as many as uploads at a time, so that large ones do not hold up a small one
MAX_LIFETIME = timedelta(days=7)  # of a presigned URL; S3 takes no longer ones
SLOWEST_DISK = 10 * 1024 * 1024  # bytes a second
PROBE_PREFIX = "health"  # of no tenant

log = Log("object_store")


class StoredObject(Struct, frozen=True):
    """What a put has stored."""

    size: int
    sha256: bytes


class ObjectInfo(Struct, frozen=True):
    """What the store knows about an object."""

    key: str
    size: int
    modified: datetime


class ObjectStore:
    """Every step has a deadline: a call, or one piece of a stream. Calls are retried until then.

    All methods raise StoreUnavailable, or StoreDenied if the store answers but settings or permissions are wrong.
    Keys come from `file_key`, and no key is written twice. Those in a bucket of a tenant come from its clients.
    """

    def __init__(self, url: str, deadline: float = DEADLINE_SECONDS, public_endpoint: str = "") -> None:
        """Open the store of `CHARONIA_STORE_URL`. Nothing connects yet. Raise SettingsError if a URL is wrong.

        `public_endpoint` is where those who get presigned URLs reach an S3 store, if that is another address.
        """
        self._backend = open_backend(url, deadline)
        self._presigner = open_presigner(url, deadline, public_endpoint) if public_endpoint else self._backend
        self._advice = ADVICE[scheme_of(url)]
        self._deadline = deadline
        self._threads = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="object-store")
        self._hash_threads = ThreadPoolExecutor(HASH_THREADS, thread_name_prefix="object-store-hash")
        self._undoing: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End the threads that wait for the disk or a listing, and those that hash."""
        self._threads.shutdown(wait=False)
        self._hash_threads.shutdown(wait=False)

    async def put(
        self,
        key: str,
        parts: AsyncIterable[bytes],
        attributes: Mapping[str, str] | None = None,
        *,
        sha256: bytes | None = None,
    ) -> StoredObject:
        """Store a stream. No reader sees the object before it is whole. `sha256` is given if the caller knows it.

        The cloud sends `attributes` as headers, such as `Content-Type`, to clients with a presigned URL.

        Memory stays below 6 * PIECE + PART * (PARTS_IN_FLIGHT + 1). If anything fails, what is stored is deleted. An
        error of `parts` comes through as it is. Raise StoreFull.
        """
        headers = None if isinstance(self._backend, LocalStore) else dict(attributes or {})
        writer = obstore.open_writer_async(
            self._backend, key, attributes=headers, buffer_size=PART, max_concurrency=PARTS_IN_FLIGHT
        )
        digest, size, hashing = hashlib.sha256(), 0, None
        loop = asyncio.get_running_loop()
        try:
            async with aclosing(regroup(parts, PIECE)) as pieces:
                async for piece in pieces:
                    size += len(piece)
                    async with self._step():
                        if hashing is not None:
                            await hashing
                        if sha256 is None:
                            hashing = loop.run_in_executor(self._hash_threads, digest.update, piece)
                        await writer.write(piece)
            async with self._step():
                await writer.close()
                if hashing is not None:
                    await hashing
            await self._sync(key, size)
        except BaseException as error:
            await self._undo(key, writer, error)
            raise
        return StoredObject(size, sha256 or digest.digest())

    async def read(self, key: str, start: int = 0, end: int | None = None) -> ObjectReader:
        """Open an object, or its bytes from `start` up to `end`. Raise StoreNotFound or StoreRangeInvalid."""
        if end is not None and end <= start:
            raise StoreRangeInvalid(f"The range from {start} up to {end} is empty.")
        if isinstance(self._backend, LocalStore):
            return await open_local_object(self._backend, key, start, end, PIECE, self._step)
        return await open_cloud_object(self._backend, key, start, end, PIECE, self._step)

    async def head(self, key: str) -> ObjectInfo:
        """Return what the store knows about an object. Raise StoreNotFound, on S3 also for a bucket that is missing."""
        async with self._step():
            found = await obstore.head_async(self._backend, key)
        return ObjectInfo(found["path"], found["size"], found["last_modified"])

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, and what killed processes left of puts to them in a folder. A missing one is no error."""
        for first in range(0, len(keys), PAGE):
            page = keys[first : first + PAGE]
            try:
                async with self._step():
                    await obstore.delete_async(self._backend, page)
            except StoreNotFound:  # the call may have ended at the first that is missing
                for some in range(0, len(page), DELETES_IN_FLIGHT):
                    await asyncio.gather(*map(self._delete_one, page[some : some + DELETES_IN_FLIGHT]))
            if (root := self._root) is not None:
                async with self._step():
                    await asyncio.to_thread(folder.delete_parts, root, page)

    async def delete_each(self, keys: Sequence[str]) -> dict[str, StoreUnavailable]:
        """Delete objects, whatever becomes of one of them. Return the errors. Raise StoreUnavailable if it is away."""
        try:
            await self.delete(keys)
        except StoreUnavailable:
            await self.check()
        else:
            return {}
        failed: dict[str, StoreUnavailable] = {}

        async def delete(key: str) -> None:
            try:
                await self.delete([key])
            except StoreUnavailable as error:
                failed[key] = error

        for some in range(0, len(keys), DELETES_IN_FLIGHT):
            await asyncio.gather(*map(delete, keys[some : some + DELETES_IN_FLIGHT]))
        return failed

    async def list_pages(self, folder: str = "") -> AsyncGenerator[list[ObjectInfo], None]:
        """Yield all objects, or those in a folder, in pages, in no order that holds for every store."""
        stream = obstore.list(self._backend, folder, chunk_size=PAGE)
        while True:
            # obstore panics when Python frees a listing with a request under way. A thread holds it until then.
            async with self._step():
                page = await asyncio.get_running_loop().run_in_executor(self._threads, next, stream, None)
            if page is None:
                return
            yield [ObjectInfo(found["path"], found["size"], found["last_modified"]) for found in page]

    @property
    def put_headers(self) -> dict[str, str]:
        """The headers that the cloud wants in a PUT to a presigned URL."""
        return {"x-ms-blob-type": "BlockBlob"} if isinstance(self._backend, AzureStore) else {}

    async def presign(
        self, method: Literal["GET", "PUT"], key: str, lifetime: timedelta, length: int | None = None
    ) -> str | None:
        """Return a URL for this method that anybody may use until then. Return None for a local folder: it has none.

        An upload must then have `length` bytes, if it is given. Azure and Google take any length, and so does S3 if the
        credentials are those of a role.
        """
        if lifetime > MAX_LIFETIME:
            raise ValueError(f"a presigned URL lasts {MAX_LIFETIME.days} days at most")
        if isinstance(self._presigner, LocalStore):
            return None
        async with self._step():
            url = await obstore.sign_async(self._presigner, method, key, lifetime)
        if length is None or not isinstance(self._presigner, S3Store):
            return url
        return sign_length(url, method, length) or url

    async def check(self) -> None:
        """Raise StoreUnavailable or StoreDenied unless the store answers and its bucket or folder is there."""
        if (root := self._root) is not None and not os.access(root, os.R_OK | os.W_OK | os.X_OK):
            raise StoreDenied(f"The folder {root} is missing or not writable. Check the {self._advice}.")
        async with self._step():
            await obstore.list_with_delimiter_async(self._backend, PROBE_PREFIX)

    async def delete_unfinished(self, older_than: timedelta) -> int:
        """Delete what killed processes left of their puts to a local folder. Return how many there were.

        In the cloud, a lifecycle rule of the bucket does that.
        """
        if (root := self._root) is None:
            return 0
        async with self._step():
            return await asyncio.to_thread(folder.delete_unfinished, root, older_than.total_seconds())

    @property
    def _root(self) -> Path | None:
        return Path(self._backend.prefix or "/") if isinstance(self._backend, LocalStore) else None

    @asynccontextmanager
    async def _step(self, more_seconds: float = 0.0) -> AsyncIterator[None]:
        """Give a call of obstore its deadline, and its errors their names."""
        seconds = self._deadline + more_seconds
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise StoreUnavailable(f"The object store did not answer within {seconds:g} s.") from error
        except OBSTORE_ERRORS as error:
            raise name_error(error, self._advice) from error

    async def _sync(self, key: str, size: int) -> None:
        """Make a new file survive a power failure."""
        if (root := self._root) is not None:
            async with self._step(size / SLOWEST_DISK):
                await asyncio.get_running_loop().run_in_executor(self._threads, folder.sync, root, key)

    async def _undo(self, key: str, writer: "obstore.AsyncWritableFile", error: BaseException) -> None:
        """Delete what a put has stored, also if the caller is cancelled again."""
        undoing = asyncio.create_task(self._delete_parts(key, writer, error))
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        # Its steps have deadlines. A late one would delete what the next try stores; after a cancel there is none.
        await asyncio.wait({undoing}, timeout=self._deadline if isinstance(error, asyncio.CancelledError) else None)

    async def _delete_parts(self, key: str, writer: "obstore.AsyncWritableFile", error: BaseException) -> None:
        try:
            try:
                async with self._step():
                    if not await writer.closed():
                        await writer.__aexit__(type(error), error, error.__traceback__)
            finally:  # the put may have failed after its last part
                await self._delete_one(key)
        except CharoniaError as failure:
            log.warning("object_store.parts_left", key=key, error=failure)

    async def _delete_one(self, key: str) -> None:
        with suppress(StoreNotFound):
            async with self._step():
                await obstore.delete_async(self._backend, key)
