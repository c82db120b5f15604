"""The OpenAPI document: Litestar's paths, and msgspec's own schemas, which are what bodies are checked against.

Litestar's schemas of the same types lack the bounds of optional fields, and that unknown fields are refused.
"""

from functools import cache
from typing import Any

import msgspec
from litestar import Litestar
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema

from common.tensors import Output
from services.gateway import errors, model_schemas, protocol_answer, protocol_views, schemas, webhook_schemas
from services.gateway.examples import EXAMPLES
from services.gateway.response_headers import add_headers

PREFIX = "#/components/schemas/"
KINDS: list[Any] = [Output]  # named in schemas of what is passed on as it was written down
KINDS += [
    kind
    for module in (schemas, webhook_schemas, model_schemas, errors, protocol_answer, protocol_views)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct
]


def offer_too(operation: Operation, media_type: str, schema: Schema) -> None:
    """Adds what 200 may also be: Litestar knows of one media type for each status."""
    answer = (operation.responses or {})["200"]
    assert isinstance(answer, OpenAPIResponse), "the handler names it among its responses"
    answer.content = {**(answer.content or {}), media_type: OpenAPIMediaType(schema)}


@cache
def describe(app: Litestar) -> dict[str, Any]:
    """The document, as JSON."""
    document: dict[str, Any] = app.openapi_schema.to_schema()
    _, components = msgspec.json.schema_components(KINDS, ref_template=PREFIX + "{name}")
    document["components"]["schemas"] |= components
    for path in document["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and "requestBody" in operation:
                finish_body(operation)
            if isinstance(operation, dict):
                add_headers(operation)
    return document


def finish_body(operation: dict[str, Any]) -> None:
    """A body that may be left out says so; and there is an example of each."""
    for media_type, content in operation["requestBody"]["content"].items():
        kinds = content["schema"].get("oneOf", [])
        if {"type": "null"} in kinds:
            operation["requestBody"]["required"] = False
        for kind in (content["schema"], *kinds) if media_type == "application/json" else ():
            if example := EXAMPLES.get(kind.get("$ref", "").removeprefix(PREFIX)):
                content["examples"] = {name: {"value": value} for name, value in example.items()}
