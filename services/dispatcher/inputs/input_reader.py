"""Reads the inputs of jobs that are in files or were fetched, and completes a request to Triton with them."""

import asyncio
import io
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import assert_never
from uuid import UUID

from common import ids
from common.errors import StoreNotFound, StoreRangeInvalid, StoreUnavailable
from common.job_states import Failure
from common.object_store.keys import file_key
from common.object_store.pauses import Pauses
from common.object_store.store import ObjectStore
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from common.tensors import FileContent, ObjectContent, Tensor, UrlContent
from services.dispatcher.inputs.bucket_reader import BucketReader
from services.dispatcher.inputs.fetched import FetchedContent
from services.dispatcher.inputs.references import FileUrls
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.request_bytes import begin_content, begin_file, begin_whole

NOTHING: Mapping[str, FetchedContent] = MappingProxyType({})
AWAY = Failure("store_unavailable", "the object store with the job's files does not answer; the job waits for it", True)
MIN_RATE = 1024 * 1024  # bytes a second: a reader holds a slot of its model
SPARE_SECONDS = 20.0
CHECK_SECONDS = 5.0
UNREADABLE_SECONDS = 10.0  # until a job reads a file again that the store has, but cannot read

log = Log("inputs")


class Unreadable(Exception):
    """One object cannot be read: it, or the whole store, has a fault."""


class InputReader:
    """Reads files of the object store. While the store is away, jobs that need it are refused at once.

    An object that cannot be read while the store answers delays its own jobs only.
    """

    def __init__(
        self, objects: ObjectStore, urls: FileUrls, buckets: BucketReader, pauses: Pauses | None = None
    ) -> None:
        self._objects = objects
        self._urls = urls
        self._buckets = buckets
        self._pauses = pauses or Pauses()
        self._outage = Outage()

    async def complete(
        self,
        head: bytes,
        tenant_id: UUID,
        inputs: Sequence[Tensor],
        timeout: float,
        fetched: Mapping[str, FetchedContent] = NOTHING,
    ) -> bytes:
        """Return a request to Triton: what comes before the contents of its inputs, and these contents.

        A model that takes a reference gets a URL instead. `fetched` are the contents of inputs from URLs, by name. The
        request holds each byte once. Raises InferenceError, also after `timeout` seconds, or below MIN_RATE.
        """
        uses_store = any(isinstance(tensor.data, FileContent) for tensor in inputs)
        if uses_store and (left := self._pauses.left()) > 0:
            raise InferenceError(AWAY, refused=True, delay=left)
        allowed = allow_seconds(inputs, fetched)
        try:
            async with asyncio.timeout(min(timeout, allowed)):
                await self._buckets.check(tenant_id, inputs)
                request = await self._read_all(head, tenant_id, inputs, fetched, timeout)
        except Unreadable as error:
            raise await self._refuse(error) from error
        except TimeoutError as error:
            if timeout <= allowed:
                text = f"reading the job's files took longer than its timeout of {timeout:g} s; give it a longer one"
            elif not await self._is_away():
                text = f"reading the job's files took longer than {allowed:g} s; check the object store"
            else:
                raise self._pause(error) from error
            raise InferenceError(Failure("input_timeout", text, True)) from None
        if uses_store:
            self._pauses.note_success()
            self._outage.end()
        return request

    async def _refuse(self, error: Unreadable) -> InferenceError:
        if await self._is_away():
            return self._pause(error)
        log.warning("inputs.unreadable", error=error.__cause__)
        text = f"{error}; the object store answers, but not for this file; the job waits, and tries again"
        return InferenceError(Failure("input_unreadable", text, True), refused=True, delay=UNREADABLE_SECONDS)

    async def _is_away(self) -> bool:
        """Return whether the store as a whole does not answer, or denies everything."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._objects.check()
        except (StoreUnavailable, TimeoutError):
            return True
        return False

    def _pause(self, error: Exception) -> InferenceError:
        self._pauses.note_failure()
        if self._outage.begin():
            log.warning("inputs.store_unavailable", error=error.__cause__ or error)
        return InferenceError(AWAY, refused=True, delay=self._pauses.left())

    async def _read_all(
        self,
        head: bytes,
        tenant_id: UUID,
        inputs: Sequence[Tensor],
        fetched: Mapping[str, FetchedContent],
        timeout: float,
    ) -> bytes:
        request = io.BytesIO()  # unlike a bytearray, it hands over its bytes without a copy
        request.write(head)
        for tensor in inputs:
            match tensor.data:
                case bytes():
                    request.write(begin_content(len(tensor.data)))
                    request.write(tensor.data)
                case FileContent(by_reference=True):
                    element = await self._refer(tenant_id, tensor.name, tensor.data, timeout)
                    request.write(begin_content(len(element)))
                    request.write(element)
                case FileContent():
                    request.write(begin_file(tensor.datatype, tensor.data))
                    if tensor.data.size:
                        await self._read(tenant_id, tensor.name, tensor.data, request)
                case ObjectContent():
                    request.write(begin_whole(tensor.datatype, tensor.data.size))
                    if tensor.data.size:
                        await self._buckets.read(tensor.name, tensor.data, request)
                case UrlContent():
                    content = fetched[tensor.name]
                    request.write(begin_whole(tensor.datatype, content.size))
                    while piece := await content.read():
                        request.write(piece)
                case never:
                    assert_never(never)
        return request.getvalue()

    async def _refer(self, tenant_id: UUID, name: str, content: FileContent, timeout: float) -> bytes:
        """Return the URL of a file as an element. Raises InferenceError, as for a file that is read."""
        with name_errors(name, content):
            found = await self._objects.head(file_key(tenant_id, content.file_id))
            check_size(name, content, found.size)
            url = await self._urls.sign(tenant_id, content.file_id, timeout)
        return struct.pack("<I", len(url)) + url.encode()

    async def _read(self, tenant_id: UUID, name: str, content: FileContent, request: io.BytesIO) -> None:
        """Append the content of a file. Raises InferenceError if it is not what the job was submitted with."""
        begin = request.tell()
        with name_errors(name, content):
            reader = await self._objects.read(file_key(tenant_id, content.file_id), content.offset)
            check_size(name, content, reader.size)
            async for piece in reader.pieces:
                request.write(piece)
            if (got := request.tell() - begin) != content.size:
                raise StoreUnavailable(f"The object store sent {got} bytes of {show(content)}, not {content.size}.")


@contextmanager
def name_errors(name: str, content: FileContent) -> Iterator[None]:
    """Give errors of the store the input and the file that they are about."""
    try:
        yield
    except (StoreNotFound, StoreRangeInvalid) as error:
        raise missing(name, content, "was deleted, or has expired") from error
    except StoreUnavailable as error:
        raise Unreadable(f"input '{name}': {show(content)} cannot be read") from error


def check_size(name: str, content: FileContent, size: int) -> None:
    """Raise InferenceError unless the file is as large as when the job was submitted."""
    if size != content.offset + content.size:
        raise missing(name, content, f"has {size} bytes, not {content.offset + content.size}")


def show(content: FileContent) -> str:
    return ids.encode(ids.Kind.FILE, content.file_id)


def allow_seconds(inputs: Sequence[Tensor], fetched: Mapping[str, FetchedContent] = NOTHING) -> float:
    """Return the seconds that reading these inputs may take, whatever the timeout of the job."""
    files = sum(each.data.bytes_read for each in inputs if isinstance(each.data, FileContent | ObjectContent))
    return SPARE_SECONDS + (files + sum(content.size for content in fetched.values())) / MIN_RATE


def missing(name: str, content: FileContent, reason: str) -> InferenceError:
    file, advice = show(content), "upload the file again, and submit a new job"
    if content.inline:
        file, advice = f"its content, {file} in the object store,", "submit the job again"
    text = f"input '{name}': {file} {reason}; {advice}"
    return InferenceError(Failure("input_missing", text, False))
