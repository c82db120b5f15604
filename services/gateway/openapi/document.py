"""The OpenAPI document: Litestar's paths, and msgspec's own schemas, which are what bodies are checked against.

Litestar's schemas of the same types lack the bounds of optional fields, and that unknown fields are refused.
"""

from functools import cache
from typing import Any

import msgspec
from litestar import Litestar, Request, Router, get
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from common.tensors import Output
from services.gateway.audit import schemas as audit_schemas
from services.gateway.batches import schemas as batch_schemas
from services.gateway.events import schemas as event_schemas
from services.gateway.http import problems, welcome
from services.gateway.jobs import schemas as job_schemas
from services.gateway.models import schemas as model_schemas
from services.gateway.open_inference import responses
from services.gateway.open_inference import schemas as protocol_schemas
from services.gateway.openapi.answer_examples import ANSWERS
from services.gateway.openapi.descriptions import FIELDS
from services.gateway.openapi.examples import REQUESTS
from services.gateway.openapi.request_bodies import add_bodies
from services.gateway.openapi.response_headers import add_headers
from services.gateway.openapi.swagger_ui import DocsPlugin, make_docs_router
from services.gateway.usage import schemas as usage_schemas
from services.gateway.webhooks import schemas as webhook_schemas

PREFIX = "#/components/schemas/"
SCHEMA_MODULES = (
    *(job_schemas, batch_schemas, event_schemas, webhook_schemas, model_schemas, usage_schemas),
    audit_schemas,
    *(problems, welcome, responses, protocol_schemas),
)
KINDS: list[Any] = [Output]  # not a field of any other type
KINDS += [
    kind
    for module in SCHEMA_MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct
]


def make_config() -> OpenAPIConfig:
    """Return Litestar's configuration of the document and of `/docs`."""
    return OpenAPIConfig(
        title="Charonia",
        version="1",
        description="Asynchronous inference for NVIDIA Triton.",
        openapi_router=make_docs_router(),
        use_handler_docstrings=True,
        render_plugins=[DocsPlugin()],
        components=Components(security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}),
        security=[{"key": []}],
    )


@get("/openapi.json", include_in_schema=False)
async def openapi(request: Request[Any, Any, Any]) -> dict[str, Any]:
    return describe(request.app)


router = Router("/", route_handlers=[openapi], security=[{}])


@cache
def describe(app: Litestar) -> dict[str, Any]:
    """Return the document as JSON."""
    document: dict[str, Any] = app.openapi_schema.to_schema()
    document["components"]["schemas"] |= describe_schemas()
    for path in document["paths"].values():
        for operation in path.values():
            add_bodies(operation)
            for parameter in operation.get("parameters", []):
                if description := FIELDS.get(parameter["name"]):
                    parameter.setdefault("description", description)
            add_request_examples(operation)
            add_answer_examples(operation)
            add_headers(operation)
    return document


def describe_schemas() -> dict[str, Any]:
    """Return the schemas that bodies are checked against, with a description of each field."""
    _, schemas = msgspec.json.schema_components(KINDS, ref_template=PREFIX + "{name}")
    for name, schema in schemas.items():
        for field, shape in schema.get("properties", {}).items():
            own = next((each["description"] for each in shape.get("anyOf", []) if "description" in each), None)
            if description := own or FIELDS.get(f"{name}.{field}", FIELDS.get(field)):
                shape.setdefault("description", description)
    schemas["BatchJob"]["required"].remove("model")  # the defaults may have it
    return schemas


def add_request_examples(operation: dict[str, Any]) -> None:
    """Add the examples of a body, and mark a body that may be left out."""
    body = operation.get("requestBody", {"content": {}})
    for content in body["content"].values():
        if {"type": "null"} in content["schema"].get("oneOf", []):
            body["required"] = False
    if examples := REQUESTS.get(operation["operationId"]):
        body["content"]["application/json"]["examples"] = {name: {"value": each} for name, each in examples.items()}


def add_answer_examples(operation: dict[str, Any]) -> None:
    for status, answer in operation["responses"].items():
        content = answer.get("content", {}).get("application/json", {"schema": {}})
        schema = content["schema"].get("$ref", "").removeprefix(PREFIX)
        example = ANSWERS.get(f"{operation['operationId']} {status}", ANSWERS.get(schema))
        if example is not None:
            content["example"] = example
