"""The body of a webhook with the format `openai`. The database's function `openai_event` writes it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from common.event_types import OPENAI_EVENT_TYPES


class OpenAISubject(msgspec.Struct, frozen=True):
    """What happened to whom."""

    id: str
    """The id of the response (`resp_…`) or batch (`batch_…`); that of the subscription for a test."""


class OpenAIEvent(msgspec.Struct, frozen=True):
    """The body of an event in OpenAI's words."""

    object: Annotated[str, Meta(extra_json_schema={"const": "event"})]
    """Always `event`."""
    id: str
    """The id of the event. Deliveries of it to other receivers have the same."""
    type: Annotated[str, Meta(extra_json_schema={"enum": [*OPENAI_EVENT_TYPES, "webhook.test"]})]
    """The type of the event, by OpenAI's name. A test has `webhook.test`, which OpenAI does not have."""
    created_at: int
    """When it happened, in Unix seconds."""
    data: OpenAISubject
    """What it is about."""
