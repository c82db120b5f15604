"""HTTP routes of files in OpenAI's words."""

import functools
from http import HTTPStatus
from typing import Annotated, Any, Literal
from uuid import UUID

from litestar import Request, Response, Router, delete, get, post
from litestar.di import Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter
from litestar.response import Stream

from common.telemetry.logs import Log
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.batches.items import LINES
from services.gateway.files.downloads import ISOLATED, send_file
from services.gateway.files.routes import remove_file
from services.gateway.files.schemas import BINARY
from services.gateway.files.uploads import Announced
from services.gateway.http.limits.body_limits import too_large
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.problems import FieldError, Problem, conflict, invalid, not_found
from services.gateway.http.telemetry import identify_caller
from services.gateway.openai.batches.output_files import OutputLines
from services.gateway.openai.batches.record import read_record
from services.gateway.openai.batches.routes import After
from services.gateway.openai.batches.store import BatchFiles
from services.gateway.openai.calls.documentation import ANY_CALL, NAMED, SUBMIT, document
from services.gateway.openai.files.dependencies import OpenAIFileServices, Services
from services.gateway.openai.files.form import PURPOSES, FileForm
from services.gateway.openai.files.listing import (
    BATCH_OUTPUT,
    NEWEST,
    OLDEST,
    Place,
    place_output,
    view_output,
    view_upload,
)
from services.gateway.openai.files.schemas import DeletedFile, OpenAIFile, OpenAIFileList
from services.gateway.openai.ids import Prefix, parse

Caller = Request[Key, Any, Any]
Purpose = Literal["batch", "user_data", "batch_output"]
MOST = 10_000  # files that a client may ask for, as in OpenAI's API
PAGE = 1000  # files that it gets at most
FORM_BYTES = 64 * 1024  # of a form besides its file
OUTPUTS = {Prefix.OUTPUT: "has_output", Prefix.ERRORS: "has_errors"}
assert (*PURPOSES, BATCH_OUTPUT) == Purpose.__args__  # type: ignore[attr-defined]

log = Log("files")


@post(
    "/files",
    status_code=HTTPStatus.OK,
    summary="Upload a file by form",
    operation_id="create_openai_file",
    **needs(Scope.SUBMIT),
    responses=document(*SUBMIT),
)
async def create_openai_file(request: Caller, services: Services) -> OpenAIFile:
    """Store the `file` of a form with its `purpose`: `batch` or `user_data`.

    It is deleted after a day, unless `expires_after[seconds]` says otherwise.
    """
    uploader = services.files.uploader
    form = FileForm(request.headers, uploader.limits.kept_longest)
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdecimal() and int(length) > uploader.limits.largest + FORM_BYTES:
        raise too_large(uploader.limits.largest)
    announced = Announced(BINARY, None, None, uploader.limits.kept)
    file = await uploader.receive(request, request.user.tenant_id, announced, form)
    view = view_upload(file)
    log.info("file.uploaded", file_id=view.id, bytes=file.size, **identify_caller(request))
    return view


@get(
    "/files",
    summary="List your files and those of batches",
    operation_id="list_openai_files",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_openai_files(
    request: Caller,
    services: Services,
    purpose: Annotated[Purpose | None, Parameter(description="Only files with this purpose.")] = None,
    after: After = None,
    order: Annotated[Literal["asc", "desc"], Parameter(description="By the time of their upload.")] = "desc",
    limit: Annotated[
        int, Parameter(ge=1, le=MOST, description=f"How many files the page may have; it has {PAGE} at most.")
    ] = MOST,
) -> OpenAIFileList:
    """Return your files, newest first, and those of batches. Files of other jobs are left out."""
    tenant_id, most = request.user.tenant_id, min(limit, PAGE)
    place = OLDEST if order == "asc" else NEWEST
    if after is not None:
        place = await find_place(services, tenant_id, after)
    found = await services.listing.list(tenant_id, place, most + 1, purpose=purpose, oldest_first=order == "asc")
    data = list(found[:most])
    ends = (data[0].id, data[-1].id) if data else (None, None)
    return OpenAIFileList(data=data, first_id=ends[0], last_id=ends[1], has_more=len(found) > most)


@get(
    "/files/{openai_file_id:str}",
    summary="Get a file or one of a batch",
    operation_id="get_openai_file",
    **needs(Scope.READ),
    responses=document(*NAMED),
)
async def get_openai_file(request: Caller, openai_file_id: str, services: Services) -> OpenAIFile:
    """Return a file without its content."""
    tenant_id = request.user.tenant_id
    if (output := await find_output(services, tenant_id, openai_file_id)) is not None:
        return view_output(*output)
    return view_upload(await services.files.presigned.find(parse_file(openai_file_id), tenant_id))


@get(
    "/files/{openai_file_id:str}/content",
    summary="Download a file or one of a batch",
    operation_id="download_openai_file",
    **needs(Scope.READ),
    responses={
        200: ResponseSpec(None, description="The file"),
        307: ResponseSpec(None, description="The content is at `Location`; send no API key there"),
        **document(*NAMED),
    },
)
async def download_openai_file(request: Caller, openai_file_id: str, services: Services) -> Response[Any]:
    """Return the content of a file. A file of a batch has a line for each request that has ended by now."""
    tenant_id = request.user.tenant_id
    if (output := await find_output(services, tenant_id, openai_file_id)) is None:
        file = await services.files.presigned.find(parse_file(openai_file_id), tenant_id)
        return await send_file(request, services.files, file)
    prefix, batch = output
    lease = find_response_lease(request.scope)
    lines = OutputLines(
        services.batches,
        services.reader,
        services.workers,
        lease,
        tenant_id,
        batch.id,
        endpoint=read_record(batch.request).endpoint,
        errors=prefix is Prefix.ERRORS,
    )
    first = await lines.read()  # now, while the response may still be an error
    sending = lines.send(first, functools.partial(services.files.authenticator.recheck, request))
    name = {"Content-Disposition": f'attachment; filename="{view_output(prefix, batch).filename}"'}
    return Stream(sending, media_type=LINES[0], headers=name | ISOLATED | {"X-Accel-Buffering": "no"})


@delete(
    "/files/{openai_file_id:str}",
    status_code=HTTPStatus.OK,
    summary="Delete an uploaded file",
    operation_id="delete_openai_file",
    **needs(Scope.SUBMIT),
    responses=document(*NAMED),
)
async def delete_openai_file(request: Caller, openai_file_id: str, services: Services) -> DeletedFile:
    """Delete a file for good, unless a job or a batch still reads it. A file of a batch goes with the jobs."""
    if await find_output(services, request.user.tenant_id, openai_file_id) is not None:
        raise conflict(
            "the file is read from the jobs of its batch, and goes with them; to erase one of them now, use "
            "POST /v1/jobs/{id}/erase"
        )
    await remove_file(request, services.files, parse_file(openai_file_id))
    return DeletedFile(id=openai_file_id)


def parse_file(text: str) -> UUID:
    """Return the id of a file in a path. Raises Problem (404)."""
    if (found := parse(Prefix.FILE, text)) is None:
        raise not_found("file")
    return found


async def find_output(services: OpenAIFileServices, tenant_id: UUID, text: str) -> tuple[Prefix, BatchFiles] | None:
    """Return which file of which batch an id means, or None if it is not such an id.

    Raises Problem (404) if there is no such batch, or it has no such file yet.
    """
    for prefix, has in OUTPUTS.items():
        if (batch_id := parse(prefix, text)) is not None:
            batch = await services.batches.find_files(batch_id, tenant_id)
            if batch is None or not getattr(batch, has):
                raise not_found("file")
            return prefix, batch
    return None


async def find_place(services: OpenAIFileServices, tenant_id: UUID, text: str) -> Place:
    """Return the place of a file in the list. Raises Problem (422)."""
    try:
        if (output := await find_output(services, tenant_id, text)) is not None:
            return place_output(*output)
        file = await services.files.presigned.find(parse_file(text), tenant_id)
    except Problem as problem:
        if problem.status is not HTTPStatus.NOT_FOUND:
            raise
        error = FieldError("after", "is no file of yours; pass the `last_id` of the page before")
        raise invalid(error) from problem
    return Place(file.created_at, file.id)


def make_router(services: OpenAIFileServices) -> Router:
    return Router(
        "/",
        route_handlers=[
            create_openai_file,
            list_openai_files,
            get_openai_file,
            download_openai_file,
            delete_openai_file,
        ],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        request_max_body_size=None,  # uploads have a limit of their own
        tags=["OpenAI"],
    )
