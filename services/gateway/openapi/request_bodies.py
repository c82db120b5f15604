"""Request bodies and media types that Litestar cannot know, since the handlers read or write them themselves."""

from copy import deepcopy
from typing import Any

import msgspec

from services.gateway.batches.items import LINES, MAX_ITEMS
from services.gateway.http.negotiation import EVENT_STREAM, PLAIN_TEXT
from services.gateway.open_inference.requests import JSON_LENGTH_HEADER
from services.gateway.openai.files.form import ANCHOR, FORM, PURPOSES, SECONDS
from services.gateway.openapi.job_examples import BATCH_RESULTS

JOB = {"$ref": "#/components/schemas/SubmitJob"}
BATCH_ITEM = {"anyOf": [{"$ref": "#/components/schemas/BatchJob"}, {"$ref": "#/components/schemas/DefaultsLine"}]}


def describe_lines(item: dict[str, Any], description: str) -> dict[str, Any]:
    """Return the schema of a text with an item in each line. JSON Schema has no such type: it is a text for it."""
    return {
        "type": "string",
        "format": "binary",
        "description": description,
        "contentMediaType": LINES[0],
        "contentSchema": {"type": "array", "items": item},
    }


JOB_LINES = describe_lines(BATCH_ITEM, "The elements of that list, one in each line.")
RESULT_LINES = describe_lines({"$ref": "#/components/schemas/BatchResult"}, "One BatchResult in each line.")
OUTPUT_LINES = describe_lines(
    {"$ref": "#/components/schemas/OutputLine"}, "Of a file of a batch: one OutputLine in each line."
)
STREAM = {
    "type": "string",
    "description": "Server-sent events. The `data` of each is an EventItem without its `position`.",
}
FEED = {"type": "string", "description": "Server-sent events. The `data` of each is the body of its webhooks."}
CHUNKS = {
    "type": "string",
    "description": "Server-sent events in OpenAI's form. The last has the data `[DONE]`.",
}
RESPONSE_EVENTS = {
    "type": "string",
    "description": "Server-sent events in OpenAI's form. The last is `response.completed`, `response.incomplete`, "
    "`response.failed`, or `error` if the stream cannot go on.",
}
RAW_TENSORS = {
    "type": "string",
    "format": "binary",
    "description": f"The same JSON, with {JSON_LENGTH_HEADER} bytes, followed by raw tensors.",
}
INFER_BODY = {
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/InferRequest"}},
        "application/octet-stream": {"schema": RAW_TENSORS},
    },
    "required": True,
}
FILE = {"type": "string", "format": "binary", "description": "The bytes of the file, of any media type."}
UPLOAD_FORM = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "The file, before or after the other fields."},
        "purpose": {"type": "string", "enum": list(PURPOSES), "description": "What it is for."},
        ANCHOR: {"type": "string", "enum": ["created_at"], "description": "Only with the seconds."},
        SECONDS: {"type": "integer", "minimum": 1, "description": "How many seconds the file is kept."},
    },
}
OPENAI_BODIES = {
    "create_openai_batch": "BatchRequest",
    "create_chat_completion": "ChatRequest",
    "create_completion": "CompletionRequest",
    "create_embeddings": "EmbeddingRequest",
    "create_response": "ResponseRequest",
}
BODIES: dict[str, Any] = {
    "submit_job": {"content": {"application/json": {"schema": JOB}}, "required": True},
    "submit_batch": {
        "description": (
            "A JSON list of jobs, or one job in each line. A job has the form of POST /v1/jobs, and `custom_id`. "
            "The first element or line may be the defaults of all jobs."
        ),
        "content": {
            "application/json": {
                "schema": {"type": "array", "items": BATCH_ITEM, "minItems": 1, "maxItems": MAX_ITEMS + 1},
            },
            LINES[0]: {"schema": JOB_LINES},
        },
        "required": True,
    },
    "upload_file": {
        "description": "The bytes of the file.",
        "content": {"application/octet-stream": {"schema": FILE}},
        "required": True,
    },
    **{
        call: {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind}"}}}, "required": True}
        for call, kind in OPENAI_BODIES.items()
    },
    "create_openai_file": {"content": {FORM: {"schema": UPLOAD_FORM}}, "required": True},
    "infer": INFER_BODY,
    "infer_version": INFER_BODY,
}
# What 200 is that Litestar cannot know: lines, and more than one media type.
OTHER_MEDIA_TYPES: dict[str, dict[str, Any]] = {
    "submit_job": {EVENT_STREAM: {"schema": STREAM}},
    "list_feed": {EVENT_STREAM: {"schema": FEED}},
    "list_events": {EVENT_STREAM: {"schema": STREAM}},
    "get_batch_results": {
        LINES[0]: {"schema": RESULT_LINES, "example": msgspec.json.Encoder().encode_lines(BATCH_RESULTS).decode()}
    },
    "get_trace": {PLAIN_TEXT: {"schema": {"type": "string", "description": "The spans in columns, one a line."}}},
    "download_file": {"*/*": {"schema": FILE}},
    "download_openai_file": {"*/*": {"schema": FILE}, LINES[0]: {"schema": OUTPUT_LINES}},
    **{call: {EVENT_STREAM: {"schema": CHUNKS}} for call in ("create_chat_completion", "create_completion")},
    **{call: {EVENT_STREAM: {"schema": RESPONSE_EVENTS}} for call in ("create_response", "get_response")},
    "infer": {"application/octet-stream": {"schema": RAW_TENSORS}},
    "infer_version": {"application/octet-stream": {"schema": RAW_TENSORS}},
}


def add_bodies(operation: dict[str, Any]) -> None:
    """Add a call's request body, and the other media types of its answer."""
    name = operation["operationId"]
    if name in BODIES:
        operation["requestBody"] = deepcopy(BODIES[name])
    if name in OTHER_MEDIA_TYPES:
        for status in {"200", "206"} & operation["responses"].keys():
            operation["responses"][status].setdefault("content", {}).update(OTHER_MEDIA_TYPES[name])
