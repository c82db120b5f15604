"""Receives files: streams a body into the object store, and holds only some pieces of it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from uuid import UUID

from litestar import Request

from common import ids
from common.errors import CharoniaError
from common.fair_budget import FairBudget
from common.object_store.keys import file_key
from common.object_store.store import SLOWEST_DISK, ObjectStore
from common.telemetry.logs import Log
from services.gateway.files.store import NOTHING, Description, FileRow, FileStore, NewUpload
from services.gateway.http.limits.body_limits import BODY_SECONDS, STALL_SECONDS, find_lease, overloaded
from services.gateway.http.problems import FieldError, Problem, invalid

LEASE_SECONDS = 300.0  # an upload that does not go on for so long is deleted
RENEW_SECONDS = 30.0
RENEW_BYTES = 64 * 1024 * 1024
MIN_RATE = 64 * 1024  # bytes a second that a client must send
UPLOADS = 16  # at a time, in one gateway; each holds up to 30 MiB
SHARE = 1  # so one tenant has 8 of them at most, and leaves 4 to the next one

log = Log("files")


@dataclass(frozen=True)
class UploadLimits:
    """Bytes of one file, and seconds that a file is kept by default and at most."""

    largest: int
    kept: float
    kept_longest: float


@dataclass(frozen=True)
class Announced:
    """What a client says about a file: its type, its size, its SHA-256, and for how many seconds it is kept."""

    content_type: str
    size: int | None
    sha256: bytes | None
    kept: float


class Form(Protocol):
    """The form in which a file comes, if it is not the body alone."""

    def read(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the bytes of the file, never none of them. Raises Problem."""
        ...

    def describe(self) -> Description:
        """Return what the form says of the file, once it is read. Raises Problem."""
        ...


class Uploader:
    """Stores files."""

    def __init__(self, store: FileStore, objects: ObjectStore, limits: UploadLimits) -> None:
        self.limits = limits
        self._store = store
        self._objects = objects
        self._slots: FairBudget[UUID] = FairBudget(UPLOADS, SHARE)

    async def receive(
        self, request: Request[Any, Any, Any], tenant_id: UUID, announced: Announced, form: Form | None = None
    ) -> FileRow:
        """Store the body of a request as a file, or the file in its form.

        Raises Problem, also as the form does: 408 for a client that is too slow, 413 and 429 beyond a limit, 422 for
        another SHA-256 or size than announced, 503 without a slot. Raises Unavailable without the database or the
        object store.
        """
        if announced.size is not None and announced.size > self.limits.largest:
            raise too_large(self.limits.largest)
        if not self._slots.room(tenant_id):
            raise overloaded()
        self._slots.take(tenant_id, 1)
        try:
            return await self._store_file(request, tenant_id, announced, form)
        finally:
            self._slots.take(tenant_id, -1)

    async def _store_file(
        self, request: Request[Any, Any, Any], tenant_id: UUID, announced: Announced, form: Form | None
    ) -> FileRow:
        upload = NewUpload(ids.new(), tenant_id, announced.content_type, announced.size or 0, None, announced.kept)
        key = file_key(tenant_id, upload.id)
        try:
            await self._store.begin_upload(upload, lease_for(upload.size))  # its answer may be lost, but not its row
            receiving = Receiving(self._store, self.limits.largest, request, upload, form)
            stored = await self._objects.put(key, receiving.read(), describe_content(upload.id, upload.content_type))
            check_announced(announced, stored.size, stored.sha256)
            said = NOTHING if form is None else form.describe()
            file = None
            if await receiving.renew(stored.size):
                file = await self._store.finish_upload(upload.id, stored.size, stored.sha256, said)
            if file is None:  # a sweeper gave it up, perhaps before the object was there
                await self._objects.delete([key])
                raise gone()
        except BaseException:
            await asyncio.shield(self._give_up(upload.id))
            raise
        return file

    async def _give_up(self, file_id: UUID) -> None:
        try:
            await self._store.give_up_upload(file_id)
        except CharoniaError as error:  # a sweeper finds it once its time is over
            log.warning("file.upload_left", file_id=ids.encode(ids.Kind.FILE, file_id), error=error)


class Receiving:
    """The body of an upload as it comes."""

    def __init__(
        self,
        store: FileStore,
        largest: int,
        request: Request[Any, Any, Any],
        upload: NewUpload,
        form: Form | None = None,
    ) -> None:
        self._form = form
        self._store = store
        self._largest = largest
        self._request = request
        self._upload = upload

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the parts. Keeps the upload alive in the database, and within the quota. Raises Problem."""
        deadlines = find_lease(self._request.scope).deadlines
        clock = asyncio.get_running_loop().time
        body = self._request.stream()
        stream = body if self._form is None else self._form.read(body)
        size, began, renewed_at, renewed_size = 0, clock(), clock(), 0
        while True:
            async with deadlines.enforce(min(clock() + STALL_SECONDS, began + BODY_SECONDS + size / MIN_RATE)):
                part = await anext(stream, b"")
            if not part:
                return
            size += len(part)
            if size > self._largest:
                raise too_large(self._largest)
            yield part
            if size - renewed_size >= RENEW_BYTES or clock() - renewed_at >= RENEW_SECONDS:
                if not await self.renew(size):
                    raise gone()
                renewed_at, renewed_size = clock(), size

    async def renew(self, size: int) -> bool:
        """Keep the upload alive. Return False if it was given up. Raises Problem beyond the quota."""
        return await self._store.continue_upload(self._upload.id, self._upload.tenant_id, size, lease_for(size))


def lease_for(size: int) -> float:
    """Return the seconds for which an upload of `size` bytes may make no progress. Its end may wait for the disk."""
    return LEASE_SECONDS + size / SLOWEST_DISK


def describe_content(file_id: UUID, content_type: str) -> dict[str, str]:
    """Return the headers of a file's content. No browser may run what clients upload."""
    name = ids.encode(ids.Kind.FILE, file_id)
    return {"Content-Type": content_type, "Content-Disposition": f'attachment; filename="{name}"'}


def check_announced(announced: Announced, size: int, sha256: bytes) -> None:
    """Raise Problem (422) if the file is another one than the client announced."""
    if announced.sha256 is not None and announced.sha256 != sha256:
        text = f"the body has the SHA-256 {sha256.hex()}, not {announced.sha256.hex()}; send it again"
        raise invalid(FieldError("sha256", text))
    if announced.size is not None and announced.size != size:
        raise invalid(FieldError("Content-Length", f"the body has {size} bytes, not {announced.size}; send it again"))


def too_large(limit: int) -> Problem:
    text = (
        f"the file exceeds the limit of {limit} bytes (CHARONIA_MAX_FILE_BYTES); send a smaller one, or ask your "
        "operator"
    )
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)


def gone() -> Problem:
    text = "the upload was interrupted for too long, and given up; send the file again"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers={"Retry-After": "1"})
