"""The OpenAPI document: Litestar's paths, and msgspec's own schemas, which are what bodies are checked against.

Litestar's schemas of the same types lack the bounds of optional fields, and that unknown fields are refused.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import msgspec
from litestar import Litestar, Request, Router, get
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from common.http import health
from common.job_options import RetryOptions
from common.pipelines.definition import InputDefinition, PipelineDefinition, StepDefinition
from common.tensors import RawElement
from common.views.outputs import Output
from services.gateway.admin.audit import schemas as audit_schemas
from services.gateway.admin.keys import schemas as key_schemas
from services.gateway.batches import schemas as batch_schemas
from services.gateway.events import schemas as event_schemas
from services.gateway.events.feed import schemas as feed_schemas
from services.gateway.files import schemas as file_schemas
from services.gateway.http import problems, welcome
from services.gateway.jobs import schemas as job_schemas
from services.gateway.jobs.inputs import schemas as input_schemas
from services.gateway.models import schemas as model_schemas
from services.gateway.open_inference import responses
from services.gateway.open_inference import schemas as protocol_schemas
from services.gateway.open_inference.requests import InferRequest
from services.gateway.openai import problems as openai_problems
from services.gateway.openai.batches import schemas as openai_batch_schemas
from services.gateway.openai.calls import parameters
from services.gateway.openai.chat import schemas as chat_schemas
from services.gateway.openai.completions import schemas as completion_schemas
from services.gateway.openai.embeddings import schemas as embedding_schemas
from services.gateway.openai.files import schemas as openai_file_schemas
from services.gateway.openai.models import schemas as openai_model_schemas
from services.gateway.openai.responses import schemas as response_schemas
from services.gateway.openai.responses import views as response_views
from services.gateway.openapi.answer_examples import ANSWERS
from services.gateway.openapi.descriptions import describe_fields
from services.gateway.openapi.examples import REQUESTS
from services.gateway.openapi.open_answers import open_answers
from services.gateway.openapi.parameters import describe_parameters
from services.gateway.openapi.references import PREFIX
from services.gateway.openapi.request_bodies import add_bodies
from services.gateway.openapi.response_headers import add_headers
from services.gateway.openapi.swagger_ui import DocsPlugin, make_docs_router
from services.gateway.openapi.webhook_events import BODIES, describe_webhooks
from services.gateway.pipelines import schemas as pipeline_schemas
from services.gateway.reports.stats import schemas as stats_schemas
from services.gateway.reports.traces import schemas as trace_schemas
from services.gateway.reports.usage import schemas as usage_schemas
from services.gateway.webhooks import schemas as webhook_schemas

SCHEMA_MODULES = (
    job_schemas,
    input_schemas,
    batch_schemas,
    event_schemas,
    webhook_schemas,
    model_schemas,
    pipeline_schemas,
    usage_schemas,
    audit_schemas,
    trace_schemas,
    feed_schemas,
    key_schemas,
    stats_schemas,
    file_schemas,
    problems,
    welcome,
    responses,
    protocol_schemas,
    openai_problems,
    openai_model_schemas,
    chat_schemas,
    completion_schemas,
    embedding_schemas,
    response_schemas,
    response_views,
    openai_file_schemas,
    openai_batch_schemas,
    parameters,
    health,
)
UNUSED = {msgspec.Struct, responses.StoredOutput, PipelineDefinition, StepDefinition, InputDefinition, RetryOptions}
KINDS: list[Any] = [Output, RawElement, InferRequest, *BODIES]  # not fields of any other type
KINDS += [
    kind
    for module in SCHEMA_MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in UNUSED
]
# Classes that are made of another one, whose fields are described there.
MADE_FROM: dict[type[msgspec.Struct], type[msgspec.Struct]] = {batch_schemas.BatchDefaults: job_schemas.SubmitJob}
# The groups of calls, in their order in the reference.
TAGS = {
    "Jobs": "Submit, read, cancel, retry and erase jobs.",
    "Events": "All that happens, for receivers that Charonia cannot reach.",
    "Models": "What models there are, and what they take.",
    "Pipelines": "Models in a row, which take jobs like one model.",
    "Batches": "Many jobs in one call.",
    "Files": "Large inputs and outputs, by reference.",
    "Webhooks": "Subscriptions and their secrets.",
    "Deliveries": "What was sent, and what receivers answered.",
    "Keys": "API keys of your tenant.",
    "Usage": "What you used, and your jobs in numbers.",
    "Audit log": "Who changed what.",
    "OpenAI": "The API of OpenAI, for programs that are made for it.",
    "Open Inference Protocol": "The protocol of Triton, for clients that are made for it.",
    "Operations": "The state of the gateway.",
    "Webhook events": "What Charonia sends to your receivers.",
}


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
    for path, operations in document["paths"].items():
        for operation in operations.values():
            drop_own_errors(operation)
            add_bodies(operation)
            describe_parameters(operation)
            add_request_examples(operation)
            add_answer_examples(operation)
            add_headers(path, operation)
    open_answers(document)
    document["webhooks"] = describe_webhooks()
    document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    return document


def drop_own_errors(operation: dict[str, Any]) -> None:
    """Remove the error that Litestar adds to each call with parameters. Nothing answers in its form."""
    for status, answer in list(operation["responses"].items()):
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        if "status_code" in schema.get("properties", {}):
            del operation["responses"][status]


def describe_schemas() -> dict[str, Any]:
    """Return the schemas that bodies are checked against, with a description of each field."""
    _, schemas = msgspec.json.schema_components(KINDS, ref_template=PREFIX + "{name}")
    kinds = {each.__name__: each for kind in KINDS for each in find_structs(kind)}
    for name, schema in schemas.items():
        if "properties" in schema:
            descriptions = describe_fields(MADE_FROM.get(kinds[name], kinds[name]))
            for field in schema["properties"].keys() & descriptions.keys():
                schema["properties"][field]["description"] = descriptions[field]
    leave_to_defaults(schemas["BatchJob"])
    return schemas


def leave_to_defaults(schema: dict[str, Any]) -> None:
    """Describe the job of a batch, whose missing fields are those of the batch's defaults, also its model.

    A generated client would send defaults of the schema itself, which replace those of the batch.
    """
    schema["required"].remove("model")
    for shape in schema["properties"].values():
        shape.pop("default", None)


def find_structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the classes in a type, and those of their fields."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from find_structs(field.type)
    for part in get_args(kind):
        yield from find_structs(part)


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
