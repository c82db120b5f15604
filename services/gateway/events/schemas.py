"""Response bodies of the event calls."""

from typing import Annotated

import msgspec
from msgspec import Meta

from common.views.job import Object, Time
from services.gateway.events.history import KNOWN_TYPES

HistoryEventType = Annotated[str, Meta(extra_json_schema={"enum": sorted(KNOWN_TYPES)})]


class EventItem(msgspec.Struct, frozen=True):
    """An event of a job."""

    position: str
    """The position of the event in the job's history, which is its `id` in a stream of server-sent events.

    As `cursor` it continues a list after the event, and as `Last-Event-ID` a stream.
    """
    type: HistoryEventType
    """The type of the event."""
    timestamp: Time
    """When it happened."""
    data: Object
    """What is new. Where the job ended, it is the whole job, as in its webhook.

    Of a `step.…` event it also has `step`, the name of the step, `job`, the job that ended, and `total`, the elements
    of the step that began. What does not apply is null.
    """
    sequence: int | msgspec.UnsetType = msgspec.UNSET
    """The `sequence` of the event's webhooks; absent for events that have no webhooks."""


class EventPage(msgspec.Struct, frozen=True):
    """A page of a job's history."""

    items: list[EventItem]
    """The events, oldest first."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one. Later events follow the last `position`."""
