"""The SQL statements about files, one function each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.fair_semaphore import FairSemaphore
from common.postgres import sql
from common.postgres.database import Connection, Database
from services.gateway.files.quota import Quota, Usage, check_quota
from services.gateway.http.limits.body_limits import overloaded
from services.gateway.http.pagination import Cursor

QUERIES = sql.load("services.gateway.files")
# Changes of files by all tenants at a time: they leave the other connections to submits.
MAX_CHANGES = 2
MAX_CHANGES_OF_TENANT = 20  # that wait or run; each counts the tenant's files, which takes up to 20 ms


class NewUpload(NamedTuple):
    """An upload that begins."""

    id: UUID
    tenant_id: UUID
    content_type: str
    size: int  # as announced; 0 if it is not known
    sha256: bytes | None  # as announced, of a presigned upload
    kept: float  # seconds for which the file is kept


class Description(NamedTuple):
    """What a client says of a file. None: nothing; for `kept`, as it was announced."""

    name: str | None = None
    purpose: str | None = None
    kept: float | None = None  # seconds


NOTHING = Description()


class FileRow(NamedTuple):
    """A file, or a presigned upload that has not been seen complete."""

    id: UUID
    tenant_id: UUID
    status: str
    size: int
    sha256: bytes | None
    content_type: str
    created_at: datetime
    expires_at: datetime
    job_id: UUID | None  # the job whose input or output it is; it is deleted with the job
    name: str | None = None
    purpose: str | None = None

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.created_at, self.id)

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"


class FileStore:
    def __init__(self, database: Database, quota: Quota) -> None:
        self._database = database
        self._changes = FairSemaphore[UUID](MAX_CHANGES, each=1, most_users=MAX_CHANGES_OF_TENANT, refuse=overloaded)
        self._quota = quota

    async def begin_upload(self, upload: NewUpload, seconds: float, *, presigned: bool = False) -> None:
        """Add an upload, which is deleted unless it goes on within `seconds`. Raise Problem beyond the quota."""
        async with self._within_quota(upload.id, upload.tenant_id, upload.size) as connection:
            await connection.execute(QUERIES["begin_upload"], *upload, seconds, presigned)

    async def continue_upload(self, file_id: UUID, tenant_id: UUID, size: int, seconds: float) -> bool:
        """Note the size so far. Return False if the upload was given up. Raise Problem beyond the quota."""
        async with self._within_quota(file_id, tenant_id, size) as connection:
            return bool(await connection.fetch(QUERIES["continue_upload"], file_id, size, seconds))

    async def finish_upload(
        self, file_id: UUID, size: int, sha256: bytes, said: Description = NOTHING
    ) -> FileRow | None:
        """Return the file; None if the upload was given up meanwhile."""
        return await self._fetch_file("finish_upload", file_id, size, sha256, *said)

    async def finish_presigned_upload(self, file_id: UUID, seconds: float) -> FileRow | None:
        """Return the file, whose URL is valid for `seconds` at most; None if it was finished or deleted meanwhile."""
        return await self._fetch_file("finish_presigned_upload", file_id, seconds)

    async def refuse_presigned_upload(self, file_id: UUID, size: int, seconds: float) -> None:
        """Let a sweeper delete an upload that came with another size, and whose URL is valid for `seconds` at most."""
        await self._database.fetch(QUERIES["refuse_presigned_upload"], file_id, size, seconds)

    async def give_up_upload(self, file_id: UUID) -> None:
        """Let a sweeper delete what there is of an upload."""
        await self._database.fetch(QUERIES["give_up_upload"], file_id)

    async def find(self, file_id: UUID) -> FileRow | None:
        """Return a file or a presigned upload of any tenant."""
        return await self._fetch_file("find_file", file_id)

    async def is_shown(self, job_id: UUID) -> bool:
        """Return whether a job shows its outputs: it has not been erased or removed."""
        return await self._database.fetch_one(QUERIES["is_shown"], job_id) is not None

    async def list(self, tenant_id: UUID, before: Cursor, limit: int) -> list[FileRow]:
        """Return files of a tenant, newest first."""
        found = await self._database.fetch(QUERIES["list_files"], tenant_id, *before, limit)
        return [FileRow(*record.values()) for record in found]

    async def delete(self, file_id: UUID, tenant_id: UUID) -> bool:
        """Delete a file. Return False if a job needs it, or if the tenant has none with this id."""
        async with self._database.transaction() as connection:
            # The second statement sees every job that was committed before the lock.
            locked = await connection.fetch(QUERIES["lock_file"], file_id, tenant_id)
            return bool(locked and await connection.fetch(QUERIES["delete_file"], file_id))

    async def _fetch_file(self, query: str, *values: object) -> FileRow | None:
        record = await self._database.fetch_one(QUERIES[query], *values)
        return FileRow(*record.values()) if record else None

    @asynccontextmanager
    async def _within_quota(self, file_id: UUID, tenant_id: UUID, size: int) -> AsyncIterator[Connection]:
        """Begin a transaction in which nobody else adds to the tenant's files, if there is room for this one.

        A tenant holds one connection at a time, and all tenants two, so that submits have the others. Raises Problem
        (503) if too many wait.
        """
        async with self._changes.acquire(tenant_id), self._database.transaction() as connection:
            await connection.execute(QUERIES["lock_quota"], tenant_id)
            (record,) = await connection.fetch(QUERIES["measure_files"], tenant_id, file_id)
            check_quota(self._quota, Usage(*record.values()), size)
            yield connection
