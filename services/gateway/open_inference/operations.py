"""Shares OpenAPI parts and the model lookup between the routes of the Open Inference Protocol."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from litestar.openapi.datastructures import ResponseSpec

from services.gateway.auth.store import Key
from services.gateway.http.problems import Problem, ProtocolError
from services.gateway.jobs.runs.parse import lack_version
from services.gateway.models.pipeline_store import PipelineKey
from services.gateway.models.pipelines import find_runnable
from services.gateway.models.store import ModelVersion
from services.gateway.open_inference.dependencies import InferenceServices

DESCRIPTIONS = {
    HTTPStatus.BAD_REQUEST: "The request or its inputs are invalid, or the model refused them",
    HTTPStatus.UNAUTHORIZED: "The API key is missing, unknown, revoked or expired",
    HTTPStatus.FORBIDDEN: "The key lacks the scope or the model",
    HTTPStatus.NOT_FOUND: "There is no such model or version",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time, or the client left before the job ended",
    HTTPStatus.CONFLICT: "The job was canceled or has expired",
    HTTPStatus.GONE: "The job was deleted before its outputs were read",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is over the limit",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body's Content-Encoding is not supported",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests, or a full queue; see `Retry-After`",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The model failed",
    HTTPStatus.NOT_IMPLEMENTED: "The model streams; submit a job instead",
    HTTPStatus.SERVICE_UNAVAILABLE: "A dependency or the model is down; see `Retry-After`",
    HTTPStatus.GATEWAY_TIMEOUT: "The job takes longer than the gateway waits; it continues",
}


def document(*statuses: HTTPStatus) -> dict[int, ResponseSpec]:
    """Return the error responses of a call, for OpenAPI."""
    return {
        int(status): ResponseSpec(ProtocolError, description=DESCRIPTIONS[status], generate_examples=False)
        for status in statuses
    }


def name_operation(name: str) -> Callable[[Any, Any, Any], str]:
    """Return a function that chooses an operation id for each of a call's two paths."""

    def choose(_handler: Any, _method: Any, parts: Any) -> str:
        return f"{name}_version" if "versions" in parts else name

    return choose


async def find_model(services: InferenceServices, key: Key, name: str, version: str | None) -> ModelVersion:
    """Return a version of a model or a pipeline.

    Raises Problem: 404 in Triton's words, or 403 for a model that the key may not run.
    """
    models = await services.catalogue.read()
    pipeline = await find_runnable(services.pipelines, key, PipelineKey(name, version), models)
    if pipeline is not None:
        return pipeline
    try:
        if version is not None and (latest := await find_runnable(services.pipelines, key, PipelineKey(name), models)):
            raise lack_version(PipelineKey(name, version), latest)
        return await services.catalogue.find(name, version, allowed=key.models)
    except Problem as problem:
        if problem.status is HTTPStatus.FORBIDDEN:
            raise
        which = f"'{name}'" if version is None else f"'{name}' version {version}"
        if problem.status is HTTPStatus.CONFLICT:
            text = f"Request for unknown model: {which} has no available versions; {problem.detail}"
        else:
            text = f"Request for unknown model: {which} is not found; {problem.detail.rpartition('; ')[2]}"
        raise Problem(HTTPStatus.NOT_FOUND, problem.code, text) from problem
