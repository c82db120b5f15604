"""HTTP routes of files. See `downloads.py` for their content."""

from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response, Router, delete, get, post
from litestar.di import Provide
from litestar.params import Parameter

from common import ids
from common.telemetry.logs import Log
from common.views.job import format_time
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.files.announcements import check_media_type, read_announced
from services.gateway.files.dependencies import FileServices, Services
from services.gateway.files.digests import CONTENT_DIGEST
from services.gateway.files.downloads import download_file
from services.gateway.files.presigned import UPLOAD_CONFLICT
from services.gateway.files.schemas import FilePage, FileView, PresignedFile, PresignUpload
from services.gateway.files.store import FileRow
from services.gateway.files.uploads import UploadLimits
from services.gateway.http.pagination import Cursor, ListFilter, decode_cursor, encode_cursor
from services.gateway.http.parameters import CursorParameter, Limit, parse_id, wrong_cursor
from services.gateway.http.problems import (
    ANY_CALL,
    WITH_BODY,
    WITH_ID,
    FieldError,
    conflict,
    document,
    invalid,
    not_found,
)
from services.gateway.http.telemetry import identify_caller
from services.gateway.http.validation.timestamps import LATEST

Caller = Request[Key, Any, Any]
MAX_JSON = 16 * 1024  # bytes
NEWEST = Cursor(LATEST, UUID(int=2**128 - 1))

log = Log("files")


class AllFiles(ListFilter, frozen=True, tag="files"):
    """The filter of the list: none."""


@post(
    "/files",
    summary="Upload a file",
    operation_id="upload_file",
    **needs(Scope.SUBMIT),
    responses=document(*WITH_BODY),
)
async def upload_file(
    request: Caller,
    services: Services,
    sha256: Annotated[
        str | None,
        Parameter(
            schema_extra={"pattern": "^[0-9a-fA-F]{64}$"},
            description="The SHA-256 of the file in hexadecimal. A body with another one gets 422.",
        ),
    ] = None,
    expires_in: Annotated[
        float | None,
        Parameter(gt=0, description="How many seconds after its upload the file is deleted. By default after a day."),
    ] = None,
    content_digest: Annotated[
        str | None,
        Parameter(header=CONTENT_DIGEST, description="The same as `sha256`, as `sha-256=:…:` in base64 (RFC 9530)."),
    ] = None,
) -> Response[FileView]:
    """Store the body of the request as a file. Its Content-Type is kept.

    The body may have any size up to the limit; it is stored as it comes.
    """
    kept = choose_kept("expires_in", expires_in, services.uploader.limits)
    announced = read_announced(request.headers, content_digest, sha256, kept)
    file = await services.uploader.receive(request, request.user.tenant_id, announced)
    shown = view(file)
    log.info("file.uploaded", file_id=shown.id, bytes=file.size, **identify_caller(request))
    return Response(shown, headers={"Location": f"/v1/files/{shown.id}"})


@post(
    "/files/presign",
    summary="Get a URL to upload a file to the object store",
    operation_id="presign_upload",
    **needs(Scope.SUBMIT),
    responses=document(*WITH_BODY),
    request_max_body_size=MAX_JSON,
)
async def presign_upload(request: Caller, data: PresignUpload, services: Services) -> Response[PresignedFile]:
    """Return how to upload a file to the object store itself, past the gateway.

    The file is there once its content is. A gateway whose store is a folder answers 422: send the file itself.
    """
    check_media_type("/content_type", data.content_type)
    kept = choose_kept("/expires_in", data.expires_in, services.uploader.limits)
    shown = await services.presigned.begin(request.user.tenant_id, data, kept)
    log.info("file.presigned", file_id=shown.id, bytes=data.size, **identify_caller(request))
    return Response(shown, headers={"Location": f"/v1/files/{shown.id}"})


def choose_kept(pointer: str, expires_in: float | None, limits: UploadLimits) -> float:
    """Return how many seconds a file is kept. Raises Problem (422) beyond the limit."""
    kept = expires_in or limits.kept
    if not kept <= limits.kept_longest:  # nan is not
        raise invalid(FieldError(pointer, f"must be at most {limits.kept_longest:g} s"))
    return kept


@get("/files", summary="List your files", operation_id="list_files", **needs(Scope.READ), responses=document(*ANY_CALL))
async def list_files(
    request: Caller, services: Services, limit: Limit = 100, cursor: CursorParameter = None
) -> FilePage:
    """Return your files, newest first, without those of jobs. Pass `next_cursor` as `cursor` to get the next page."""
    tenant_id = request.user.tenant_id
    place = decode_cursor(cursor, tenant_id, AllFiles()) if cursor else NEWEST
    if place is None:
        raise invalid(wrong_cursor())
    rows = await services.store.list(tenant_id, place, limit + 1)
    has_more = len(rows) > limit
    next_cursor = encode_cursor(rows[limit - 1].cursor, tenant_id, AllFiles()) if has_more else None
    return FilePage([view(row) for row in rows[:limit]], next_cursor)


@get(
    "/files/{file_id:str}",
    summary="Get a file",
    operation_id="get_file",
    **needs(Scope.READ),
    responses=document(*WITH_ID, HTTPStatus.CONFLICT, conflict=UPLOAD_CONFLICT),
)
async def get_file(request: Caller, file_id: str, services: Services) -> FileView:
    """Return a file without its content. A presigned upload gets 409 until it is complete."""
    return view(await services.presigned.find(parse_id(ids.Kind.FILE, file_id), request.user.tenant_id))


@delete(
    "/files/{file_id:str}",
    summary="Delete a file",
    operation_id="delete_file",
    **needs(Scope.SUBMIT),
    responses=document(*WITH_ID, HTTPStatus.CONFLICT),
)
async def delete_file(request: Caller, file_id: str, services: Services) -> None:
    """Delete a file for good. It can no longer be read; its content is removed within seconds.

    A file that a waiting or running job reads is not deleted: cancel the job, or wait until it has ended. Nor is one
    whose lines a batch still reads.
    """
    await remove_file(request, services, parse_id(ids.Kind.FILE, file_id))


async def remove_file(request: Caller, services: FileServices, file_id: UUID) -> None:
    """Delete the caller's file. Raises Problem (404, 409)."""
    if not await services.store.delete(file_id, request.user.tenant_id):
        found = await services.store.find(file_id)
        if found is None or found.tenant_id != request.user.tenant_id:
            raise not_found("file")
        if found.job_id:
            raise conflict(f"the file belongs to {ids.encode(ids.Kind.JOB, found.job_id)}; erase that job instead")
        raise conflict(
            "a job that waits or runs reads the file, or a batch does; cancel the job or the batch, or wait until it "
            "has ended"
        )
    log.info("file.deleted", file_id=ids.encode(ids.Kind.FILE, file_id), **identify_caller(request))


def view(row: FileRow) -> FileView:
    return FileView(
        id=ids.encode(ids.Kind.FILE, row.id),
        size=row.size,
        sha256=row.sha256.hex() if row.sha256 else None,
        content_type=row.content_type,
        created_at=format_time(row.created_at),
        expires_at=None if row.job_id else format_time(row.expires_at),
    )


def make_router(services: FileServices) -> Router:
    return Router(
        "/",
        route_handlers=[upload_file, presign_upload, list_files, get_file, download_file, delete_file],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        request_max_body_size=None,  # uploads have a limit of their own
        tags=["Files"],
    )
