"""What all calls of the Open Inference Protocol have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema

from services.gateway.catalogue import Catalogue
from services.gateway.errors import Problem, ProtocolError
from services.gateway.openapi import offer_too
from services.gateway.store import ModelVersion

NAMES = Schema(type=OpenAPIType.STRING)
OBJECT = Schema(type=OpenAPIType.OBJECT)
TENSOR = Schema(
    type=OpenAPIType.OBJECT,
    required=["name", "shape", "datatype"],
    properties={
        "name": NAMES,
        "shape": Schema(type=OpenAPIType.ARRAY, items=Schema(type=OpenAPIType.INTEGER, minimum=0)),
        "datatype": NAMES,
        "data": Schema(description="flat or nested, row-major; or `binary_data_size` in `parameters`"),
        "parameters": OBJECT,
    },
)
WANTED = Schema(type=OpenAPIType.OBJECT, required=["name"], properties={"name": NAMES, "parameters": OBJECT})
REQUEST = Schema(
    type=OpenAPIType.OBJECT,
    required=["inputs"],
    properties={
        "id": NAMES,
        "inputs": Schema(type=OpenAPIType.ARRAY, items=TENSOR),
        "outputs": Schema(type=OpenAPIType.ARRAY, items=WANTED),
        "parameters": OBJECT,
    },
)
RAW = Schema(
    type=OpenAPIType.STRING,
    description="the same JSON, as long as Inference-Header-Content-Length says, and raw tensors",
)


@dataclass
class InferOperation(Operation):
    """The body is read by hand, so it is described by hand."""

    def __post_init__(self) -> None:
        content = {"application/json": OpenAPIMediaType(REQUEST), "application/octet-stream": OpenAPIMediaType(RAW)}
        self.request_body = RequestBody(content, required=True)
        offer_too(self, "application/octet-stream", RAW)


def document(*statuses: HTTPStatus) -> dict[int, ResponseSpec]:
    """The errors of a call, for its OpenAPI."""
    return {
        int(status): ResponseSpec(ProtocolError, description=status.phrase, generate_examples=False)
        for status in statuses
    }


def name_operation(name: str) -> Callable[[Any, Any, Any], str]:
    """One id for each of a call's two paths."""

    def choose(_handler: Any, _method: Any, parts: Any) -> str:
        return f"{name}_version" if "versions" in parts else name

    return choose


async def find_model(catalogue: Catalogue, name: str, version: str | None) -> ModelVersion:
    """Raises Problem (404), as Triton does."""
    try:
        return await catalogue.find(name, version)
    except Problem as problem:
        which = f"'{name}'" if version is None else f"'{name}' version {version}"
        known = problem.detail.rpartition("; ")[2]
        text = f"Request for unknown model: {which} is not found; {known}"
        raise Problem(problem.status, problem.code, text) from problem
