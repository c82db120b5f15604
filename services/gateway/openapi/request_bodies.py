"""Request bodies and media types that Litestar cannot know, since the handlers read or write them themselves."""

from copy import deepcopy
from typing import Any

from services.gateway.batches.items import LINES, MAX_ITEMS
from services.gateway.http.negotiation import EVENT_STREAM
from services.gateway.open_inference.requests import JSON_LENGTH_HEADER

JOB = {"$ref": "#/components/schemas/SubmitJob"}
BATCH_ITEM = {"anyOf": [{"$ref": "#/components/schemas/BatchJob"}, {"$ref": "#/components/schemas/DefaultsLine"}]}
STRING = {"type": "string"}
OBJECT = {"type": "object"}
TENSOR = {
    "type": "object",
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": STRING,
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "datatype": STRING,
        "data": {"description": "flat or nested, row-major; or `binary_data_size` in `parameters`"},
        "parameters": OBJECT,
    },
}
REQUESTED_OUTPUT = {"type": "object", "required": ["name"], "properties": {"name": STRING, "parameters": OBJECT}}
INFER_REQUEST = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": STRING,
        "inputs": {"type": "array", "items": TENSOR},
        "outputs": {"type": "array", "items": REQUESTED_OUTPUT},
        "parameters": OBJECT,
    },
}
RAW_TENSORS = {
    "type": "string",
    "description": f"the same JSON, with {JSON_LENGTH_HEADER} bytes, followed by raw tensors",
}
INFER_BODY = {
    "content": {
        "application/json": {"schema": INFER_REQUEST},
        "application/octet-stream": {"schema": RAW_TENSORS},
    },
    "required": True,
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
            LINES[0]: {"schema": BATCH_ITEM},
        },
        "required": True,
    },
    "infer": INFER_BODY,
    "infer_version": INFER_BODY,
}
# What 200 may also be: Litestar knows one media type for each status.
OTHER_MEDIA_TYPES: dict[str, dict[str, Any]] = {
    "submit_job": {EVENT_STREAM: {"schema": STRING}},
    "list_events": {EVENT_STREAM: {"schema": STRING}},
    "infer": {"application/octet-stream": {"schema": RAW_TENSORS}},
    "infer_version": {"application/octet-stream": {"schema": RAW_TENSORS}},
}


def add_bodies(operation: dict[str, Any]) -> None:
    """Add a call's request body, and the other media types of its answer."""
    name = operation["operationId"]
    if name in BODIES:
        operation["requestBody"] = deepcopy(BODIES[name])
    if name in OTHER_MEDIA_TYPES:
        operation["responses"]["200"]["content"] |= OTHER_MEDIA_TYPES[name]
