"""Uploads that clients send to the object store themselves, with one PUT to a presigned URL."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from uuid import UUID

from common import ids
from common.errors import CharoniaError, StoreNotFound
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.views.job import format_time
from services.gateway.files.schemas import PresignedFile, PresignedUpload, PresignUpload
from services.gateway.files.store import FileRow, FileStore, NewUpload
from services.gateway.files.uploads import MIN_RATE
from services.gateway.http.problems import FieldError, Problem, conflict, invalid, not_found, not_ready

URL_SECONDS = 900.0  # for a client to begin its PUT
SPARE_SECONDS = 60.0
UPLOAD_CONFLICT = "`not_ready`: the content is not uploaded yet. `conflict`: it has another size than announced"
LARGEST_PUT = 5 * 1024**3  # of S3
NO_URLS = "this gateway's object store has no presigned URLs; send the file itself: POST /v1/files with its bytes"


class PresignedUploads:
    """Lets clients upload to the store, and finds out what came."""

    def __init__(self, store: FileStore, objects: ObjectStore, largest: int) -> None:
        self._store = store
        self._objects = objects
        self._largest = min(largest, LARGEST_PUT)

    async def begin(self, tenant_id: UUID, wanted: PresignUpload, kept: float) -> PresignedFile:
        """Return where to send it. Raises Problem: 413 or 429 beyond a limit, 422 if the store has no such URLs."""
        if wanted.size > self._largest:
            text = f"one PUT takes up to {self._largest} bytes; send a smaller file, or use POST /v1/files"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)
        file_id, expires_at = ids.new(), datetime.now(UTC) + timedelta(seconds=URL_SECONDS)
        key = file_key(tenant_id, file_id)
        url = await self._objects.presign("PUT", key, timedelta(seconds=URL_SECONDS), wanted.size)
        if url is None:
            raise invalid(FieldError("", NO_URLS))
        sha256 = bytes.fromhex(wanted.sha256) if wanted.sha256 else None
        upload = NewUpload(file_id, tenant_id, wanted.content_type, wanted.size, sha256, kept)
        try:
            await self._store.begin_upload(upload, lease_for_put(wanted.size), presigned=True)
        except BaseException:  # its answer may be lost, but not its row
            await asyncio.shield(self._give_up(file_id))
            raise
        headers = {"Content-Type": wanted.content_type, "Content-Length": str(wanted.size)} | self._objects.put_headers
        shown = PresignedUpload(method="PUT", url=url, headers=headers, expires_at=format_time(expires_at))
        return PresignedFile(id=ids.encode(ids.Kind.FILE, file_id), upload=shown)

    async def _give_up(self, file_id: UUID) -> None:
        """Let a sweeper delete the row of an upload whose URL nobody got, so that its bytes do not count any more."""
        with suppress(CharoniaError):  # a sweeper finds it once its time is over
            await self._store.refuse_presigned_upload(file_id, 0, 0)

    async def find(self, file_id: UUID, tenant_id: UUID | None = None) -> FileRow:
        """Return a file, of one tenant if given. A presigned upload becomes a file here, once its content is there.

        Raises Problem: 404 without the file, 409 if its upload has not come. With another size than announced, 409 too,
        and the upload is deleted.
        """
        file = await self._store.find(file_id)
        if file is None or tenant_id not in (None, file.tenant_id):
            raise not_found("file")
        if file.is_ready:
            return file
        await self._check_content(file)
        finished = await self._store.finish_presigned_upload(file_id, URL_SECONDS) or await self._store.find(file_id)
        if finished is None:  # deleted just now
            raise not_found("file")
        return finished

    async def _check_content(self, file: FileRow) -> None:
        try:
            found = await self._objects.head(file_key(file.tenant_id, file.id))
        except StoreNotFound:
            raise not_ready("the file has not been uploaded; PUT it to its upload URL, and try again then") from None
        if found.size != file.size:
            await self._store.refuse_presigned_upload(file.id, found.size, URL_SECONDS)
            text = f"the upload has {found.size} bytes, not {file.size} as announced, and was deleted"
            raise conflict(f"{text}; begin again with POST /v1/files/presign")


def lease_for_put(size: int) -> float:
    """Return the seconds after which a presigned upload has ended, unless its client is too slow."""
    return URL_SECONDS + SPARE_SECONDS + size / MIN_RATE
