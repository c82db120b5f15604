"""Shares OpenAPI parts and the model lookup between the routes of the Open Inference Protocol."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from litestar.openapi.datastructures import ResponseSpec

from services.gateway.auth.store import Key
from services.gateway.http.problems import Problem, ProtocolError
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.store import ModelVersion


def document(*statuses: HTTPStatus) -> dict[int, ResponseSpec]:
    """Return the error responses of a call, for OpenAPI."""
    return {
        int(status): ResponseSpec(ProtocolError, description=status.phrase, generate_examples=False)
        for status in statuses
    }


def name_operation(name: str) -> Callable[[Any, Any, Any], str]:
    """Return a function that chooses an operation id for each of a call's two paths."""

    def choose(_handler: Any, _method: Any, parts: Any) -> str:
        return f"{name}_version" if "versions" in parts else name

    return choose


async def find_model(catalogue: Catalogue, key: Key, name: str, version: str | None) -> ModelVersion:
    """Return a model version. Raises Problem: 404 in Triton's words, or 403 for a model that the key may not run."""
    try:
        return await catalogue.find(name, version, allowed=key.models)
    except Problem as problem:
        if problem.status is HTTPStatus.FORBIDDEN:
            raise
        which = f"'{name}'" if version is None else f"'{name}' version {version}"
        if problem.status is HTTPStatus.CONFLICT:
            text = f"Request for unknown model: {which} has no available versions; {problem.detail}"
        else:
            text = f"Request for unknown model: {which} is not found; {problem.detail.rpartition('; ')[2]}"
        raise Problem(HTTPStatus.NOT_FOUND, problem.code, text) from problem
