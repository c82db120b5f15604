"""The webhooks that Charonia sends, as OpenAPI describes them."""

from typing import Any

import msgspec

from common.event_types import EVENT_TYPES, JOB_EVENT_TYPES
from common.views.batch import BatchBody
from common.views.delivery import DeliveryBody
from common.views.job import JobBody
from common.views.openai_event import OpenAIEvent
from common.views.subscription import DisabledBody, TestBody
from services.gateway.openapi.webhook_examples import EVENTS

TAG = "Webhook events"
OPENAI = "openai"  # all events of subscriptions with this format
BODY_BY_TYPE: dict[str, type[msgspec.Struct]] = {
    **dict.fromkeys(JOB_EVENT_TYPES, JobBody),
    "batch.completed": BatchBody,
    "webhook.test": TestBody,
    "webhook.disabled": DisabledBody,
    "delivery.exhausted": DeliveryBody,
    OPENAI: OpenAIEvent,
}
BODIES = tuple(dict.fromkeys(BODY_BY_TYPE.values()))
SUMMARIES = {
    "job.started": "An attempt of a job began",
    "job.succeeded": "A job succeeded",
    "job.failed": "A job failed for good",
    "job.canceled": "A job was canceled",
    "job.expired": "A job did not start in time",
    "batch.completed": "All jobs of a batch have ended",
    "webhook.test": "A subscription is tested",
    "webhook.disabled": "Another subscription was disabled",
    "delivery.exhausted": "All attempts to deliver an event failed",
    OPENAI: "A response or batch of OpenAI's API has ended, for subscriptions with the format `openai`",
}
DESCRIPTION = "Answer 2xx within 15 seconds. A delivery that is repeated has the same `webhook-id`."
STRING = {"type": "string"}
HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "webhook-id": ("The id of the delivery. Every attempt has the same.", STRING),
    "webhook-timestamp": ("When this attempt was made, in Unix seconds.", STRING),
    "webhook-signature": (
        "The signatures of `{webhook-id}.{webhook-timestamp}.{body}`, separated by spaces. "
        "`v1,` precedes HMAC-SHA256 in base64, and `v1a,` ed25519.",
        STRING,
    ),
    "traceparent": ("The trace of the job, as in W3C Trace Context.", STRING),
}
RESPONSES = {
    "2XX": {"description": "The event is delivered."},
    "410": {"description": "The delivery is given up. A subscription is disabled."},
    "429": {"description": "The event is sent again, not before the time in `Retry-After`."},
    "503": {"description": "The event is sent again, not before the time in `Retry-After`."},
    "default": {"description": "The event is sent again. Redirects are not followed."},
}


def describe_webhooks() -> dict[str, Any]:
    """Return the `webhooks` of the document, by type of event."""
    return {event_type: {"post": describe_event(event_type)} for event_type in (*EVENT_TYPES, OPENAI)}


def describe_event(event_type: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{BODY_BY_TYPE[event_type].__name__}"}
    return {
        "tags": [TAG],
        "summary": SUMMARIES[event_type],
        "description": DESCRIPTION,
        "operationId": f"receive_{event_type.replace('.', '_')}",
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": description, "schema": schema}
            for name, (description, schema) in HEADERS.items()
        ],
        "requestBody": {
            "description": "The event. The signatures are of these bytes.",
            "required": True,
            "content": {"application/json": {"schema": schema, "example": EVENTS[event_type]}},
        },
        "responses": RESPONSES,
        "security": [{}],
    }
