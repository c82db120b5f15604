"""HTTP routes that store, check, read and delete pipelines."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post, put
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import SkipValidation

from common.telemetry.logs import Log
from common.views.job import format_time
from services.gateway.auth.model_permissions import check_model, may_run
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.pagination import ListFilter, open_cursor, seal_cursor
from services.gateway.http.parameters import CursorParameter, Limit, make_name_filter, wrong_cursor
from services.gateway.http.problems import (
    ANY_CALL,
    WITH_BODY,
    WITH_ID,
    FieldError,
    conflict,
    document,
    invalid,
    limit_reached,
    not_found,
    quote_path,
)
from services.gateway.http.telemetry import identify_caller
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.pipeline_store import PipelineKey, PipelineReader, StoredPipeline
from services.gateway.models.routes import view_tensors
from services.gateway.pipelines.check import CheckedPipeline, check_pipeline
from services.gateway.pipelines.schemas import CheckedView, PipelineDetails, PipelinePage, PipelineView, PutPipeline
from services.gateway.pipelines.store import MAX_VERSIONS, NewPipeline, PipelineWriter

MAX_NAME = 255
TAKEN_OR_FULL = "`conflict`: a model of Triton has this name. `limit_reached`: too many versions"

log = Log("pipeline")

Caller = Request[Key, Any, Any]


@dataclass(frozen=True)
class PipelineServices:
    reader: PipelineReader
    writer: PipelineWriter
    catalogue: Catalogue
    max_tensor: int  # bytes


Services = NamedDependency[SkipValidation[PipelineServices]]


class PipelineFilter(ListFilter, frozen=True, kw_only=True, tag="pipelines"):
    """Selects all pipelines."""


@put(
    "/{pipeline:str}",
    status_code=HTTPStatus.CREATED,
    summary="Store a pipeline",
    operation_id="put_pipeline",
    **needs(Scope.ADMIN),
    responses={
        200: ResponseSpec(PipelineView, description="The newest version has this definition", generate_examples=False),
        **document(*WITH_BODY, HTTPStatus.CONFLICT, conflict=TAKEN_OR_FULL),
    },
)
async def put_pipeline(request: Caller, pipeline: str, data: PutPipeline, services: Services) -> Response[PipelineView]:
    """Store a version of a pipeline. From then on it takes jobs like a model.

    Runs go on with the version with which they began. If the newest version has the same definition, the answer is a
    200, and nothing changes. Every fault is reported at once. A tenant may have 10,000 versions, with those of deleted
    pipelines, which runs may refer to.
    """
    checked = await check(request.user, pipeline, data, services)
    new = NewPipeline(pipeline, data, checked.inputs, checked.step_outputs)
    stored = await services.writer.add(request.user, new)
    if stored is None:
        raise limit_reached(
            f"the tenant has {MAX_VERSIONS} versions of pipelines, the most it may have; ask the operator"
        )
    if stored.added:
        log.info("pipeline.stored", name=pipeline, version=stored.version, **identify_caller(request))
    shown = msgspec.Raw(msgspec.json.encode(data))
    view = PipelineView(pipeline, str(stored.version), format_time(stored.created_at), shown)
    status = HTTPStatus.CREATED if stored.added else HTTPStatus.OK
    return Response(view, status_code=status, headers={"Location": quote_path(f"/v1/pipelines/{pipeline}")})


@post(
    "/{pipeline:str}/check",
    status_code=HTTPStatus.OK,
    summary="Check a pipeline",
    operation_id="check_pipeline",
    **needs(Scope.ADMIN),
    responses=document(*WITH_BODY, HTTPStatus.CONFLICT, conflict="`conflict`: a model of Triton has this name"),
)
async def check_definition(request: Caller, pipeline: str, data: PutPipeline, services: Services) -> CheckedView:
    """Check a definition as storing it would, without storing it. Return what the pipeline would take and make."""
    checked = await check(request.user, pipeline, data, services)
    return CheckedView(view_tensors(checked.inputs, services.max_tensor), view_tensors(checked.outputs))


async def check(caller: Key, name: str, definition: PutPipeline, services: PipelineServices) -> CheckedPipeline:
    """Return what a valid pipeline declares. Raises Problem (403, 409, 422)."""
    check_model(caller.models, name)
    if len(name) > MAX_NAME or "\0" in name or name in (".", ".."):
        text = f"must have at most {MAX_NAME} characters, and no NUL, and must not be `.` or `..`"
        raise invalid(FieldError("pipeline", text))
    models = await services.catalogue.read()
    if name in models:
        raise conflict(f"Triton has a model '{name}'; give the pipeline another name")
    checked = check_pipeline(definition, models, caller.models)
    if checked.errors:
        raise invalid(*checked.errors)
    return checked


@get(
    "/",
    summary="List your pipelines",
    operation_id="list_pipelines",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_pipelines(
    request: Caller, services: Services, limit: Limit = 100, cursor: CursorParameter = None
) -> PipelinePage:
    """Return the newest version of each pipeline that your key may run, by name.

    Pass `next_cursor` as `cursor` to get the next page.
    """
    tenant = request.user.tenant_id
    found = await services.reader.list_newest(tenant, read_cursor(request.user, cursor), limit + 1)
    items = [view(each) for each in found[:limit] if may_run(request.user.models, each.name)]
    last = found[limit - 1].name if len(found) > limit else None
    return PipelinePage(items, None if last is None else seal_cursor(last.encode(), tenant, PipelineFilter()))


def read_cursor(caller: Key, text: str | None) -> str:
    """Return the name after which a page begins. Raises Problem (422)."""
    if not text:
        return ""
    raw = open_cursor(text, caller.tenant_id, PipelineFilter())
    try:
        if not raw:
            raise ValueError
        return raw.decode()
    except ValueError as error:
        raise invalid(wrong_cursor()) from error


@get(
    "/{pipeline:str}",
    summary="Get a pipeline",
    operation_id="get_pipeline",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_pipeline(
    request: Caller,
    pipeline: str,
    services: Services,
    version: Annotated[str | None, make_name_filter("The version. By default the newest one.")] = None,
) -> PipelineDetails:
    """Return a version of a pipeline with its definition, and the numbers of all versions."""
    check_model(request.user.models, pipeline)
    found = await services.reader.find(request.user.tenant_id, PipelineKey(pipeline, version))
    if found is None:
        raise not_found("pipeline")
    versions = await services.reader.list_versions(request.user.tenant_id, pipeline)
    shown = view(found)
    return PipelineDetails(
        shown.name, shown.version, shown.created_at, shown.definition, [str(each) for each in versions]
    )


@delete(
    "/{pipeline:str}",
    summary="Delete a pipeline",
    operation_id="delete_pipeline",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID),
)
async def delete_pipeline(request: Caller, pipeline: str, services: Services) -> None:
    """Delete a pipeline with all its versions. Its runs go on, and may be retried."""
    check_model(request.user.models, pipeline)
    if not await services.writer.delete(request.user, pipeline):
        raise not_found("pipeline")
    log.info("pipeline.deleted", name=pipeline, **identify_caller(request))


def view(stored: StoredPipeline) -> PipelineView:
    definition = msgspec.Raw(msgspec.json.encode(stored.pipeline.definition))
    return PipelineView(stored.name, str(stored.version), format_time(stored.created_at), definition)


def make_router(services: PipelineServices) -> Router:
    return Router(
        "/pipelines",
        route_handlers=[put_pipeline, check_definition, list_pipelines, get_pipeline, delete_pipeline],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Pipelines"],
    )
