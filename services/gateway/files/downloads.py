"""The HTTP route of a file's content."""

from collections.abc import AsyncIterator
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from litestar import MediaType, Request, Response, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter
from litestar.response import Stream

from common import ids
from common.errors import StoreNotFound
from common.object_store.keys import file_key
from common.object_store.store import PIECE, ObjectStore
from services.gateway.auth.scopes import OPTION, OWN_AUTHENTICATION, Scope
from services.gateway.auth.signed_urls import check_signed_url
from services.gateway.files.dependencies import FileServices, Services
from services.gateway.files.presigned import UPLOAD_CONFLICT
from services.gateway.files.ranges import ByteRange, Unsatisfiable, read_range
from services.gateway.files.store import FileRow
from services.gateway.files.uploads import describe_content
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.methods import IS_HEAD
from services.gateway.http.parameters import check_parameters, parse_id
from services.gateway.http.problems import WITH_ID, Problem, conflict, document, not_found

READ_AHEAD = 2 * PIECE  # bytes that a download holds
REDIRECT = timedelta(minutes=5)  # for a client to follow a redirect
# Files are sent from the origin of the API and the console. A browser must neither run one there, nor let a page of
# another site embed it.
ISOLATED = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@get(
    "/files/{file_id:str}/content",
    summary="Download a file",
    operation_id="download_file",
    opt={OPTION: Scope.READ, OWN_AUTHENTICATION: True},
    security=[{}, {"key": [Scope.READ.value]}],
    responses={
        200: ResponseSpec(None, description="The file"),
        206: ResponseSpec(None, description="The part that `Range` asks for"),
        307: ResponseSpec(None, description="The content is at `Location`; send no API key there"),
        **document(*WITH_ID, HTTPStatus.CONFLICT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, conflict=UPLOAD_CONFLICT),
    },
)
async def download_file(
    request: Request[Any, Any, Any],
    file_id: str,
    services: Services,
    expires: Annotated[int | None, Parameter(description="Part of a signed URL: when it expires.")] = None,
    signature: Annotated[str | None, Parameter(description="Part of a signed URL: its signature.")] = None,
    job: Annotated[
        str | None,
        Parameter(description="Part of a signed URL: the job that shows the file. Its erasure ends the URL."),
    ] = None,
    byte_range: Annotated[
        str | None, Parameter(header="Range", description="A range of bytes, such as `bytes=0-1023` (RFC 9110).")
    ] = None,
    if_range: Annotated[
        str | None, Parameter(header="If-Range", description="The `ETag` of the file that the range is for.")
    ] = None,
) -> Response[Any]:
    """Return the content of a file, or a range of its bytes. A signed URL needs no API key.

    An object store in the cloud sends the content itself, after a redirect. A file that was erased with its job gets
    404.
    """
    check_parameters(request)
    file = await find_readable(request, services, file_id, SignedQuery(expires, signature, job))
    return await send_file(request, services, file, byte_range, if_range)


async def send_file(
    request: Request[Any, Any, Any],
    services: FileServices,
    file: FileRow,
    byte_range: str | None = None,
    if_range: str | None = None,
) -> Response[Any]:
    """Return the content of a file that the caller may read, or where it is. Raises Problem (404, 409, 416, 503)."""
    if services.redirects and may_be_redirected(request):
        url = await services.objects.presign("GET", file_key(file.tenant_id, file.id), REDIRECT)
        if url is not None:
            headers = {"Location": url, "Cache-Control": "no-store"}
            return Response(b"", status_code=HTTPStatus.TEMPORARY_REDIRECT, headers=headers, media_type=MediaType.TEXT)
    etag = f'"{file.sha256.hex() if file.sha256 else ids.encode(ids.Kind.FILE, file.id)}"'
    wanted = None if IS_HEAD in request.scope else byte_range  # RFC 9110, 14.2: a range is for GET only
    try:
        part = read_range(wanted, file.size, etag, if_range)
    except Unsatisfiable:
        raise out_of_range(file.size) from None
    whole = part or ByteRange(0, file.size)
    await find_response_lease(request.scope).reserve(file.tenant_id, min(READ_AHEAD, max(1, file.size)))
    headers = describe_content(file.id, file.content_type) | {
        "Accept-Ranges": "bytes",
        "Content-Length": str(whole.end - whole.start),
        "ETag": etag,
        **ISOLATED,
    }
    if part:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{file.size}"
    return Stream(
        await open_content(services.objects, file, part),
        status_code=HTTPStatus.PARTIAL_CONTENT if part else HTTPStatus.OK,
        headers=headers,
    )


def may_be_redirected(request: Request[Any, Any, Any]) -> bool:
    """Return whether the client can follow a redirect to the object store.

    A presigned URL takes one method. A script in a browser may call the gateway, but not the object store.
    """
    return IS_HEAD not in request.scope and request.headers.get("sec-fetch-dest") != "empty"


class SignedQuery(NamedTuple):
    """The query of a signed URL of a file."""

    expires: int | None
    signature: str | None
    job: str | None = None


async def find_readable(
    request: Request[Any, Any, Any], services: FileServices, file_id: str, query: SignedQuery
) -> FileRow:
    """Return the file that a signed URL or a key may read. Raises Problem (401, 403, 404, 409)."""
    parsed = parse_id(ids.Kind.FILE, file_id)
    if query.expires is None or query.signature is None:
        key = await services.authenticator.authenticate(request)
        return await services.presigned.find(parsed, key.tenant_id)
    job = None if query.job is None else parse_id(ids.Kind.JOB, query.job)
    check_signed_url(services.signer, parsed, "file", query.expires, query.signature, job)
    if job is not None and not await services.store.is_shown(job):
        raise not_found("file")
    return await services.presigned.find(parsed)


async def open_content(objects: ObjectStore, file: FileRow, part: ByteRange | None) -> AsyncIterator[bytes]:
    """Return the bytes of a file, or a part of them.

    Raises Problem: 404 if a sweeper deleted it just now, 409 if a presigned URL has replaced it since.
    """
    try:
        reader = await objects.read(file_key(file.tenant_id, file.id), *(part or ()))
    except StoreNotFound:
        raise not_found("file") from None
    if reader.size != file.size:
        text = f"the content was replaced after the upload: it has {reader.size} bytes, not {file.size}"
        raise conflict(f"{text}; delete the file, and upload it again")
    return reader.pieces


def out_of_range(size: int) -> Problem:
    text = f"the file has {size} bytes, and none in this range"
    headers = {"Content-Range": f"bytes */{size}"}
    return Problem(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "out_of_range", text, headers=headers)
