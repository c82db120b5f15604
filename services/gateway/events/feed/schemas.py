"""Response bodies of the feed."""

from typing import Annotated

import msgspec
from msgspec import Meta

from common.event_types import EVENT_TYPES
from common.views.job import Object, Time

EventType = Annotated[str, Meta(extra_json_schema={"enum": [*EVENT_TYPES]})]


class FeedItem(msgspec.Struct, frozen=True):
    """An event of the feed."""

    id: str
    """The id of the event."""
    type: EventType
    """The type of the event."""
    timestamp: Time
    """When it happened."""
    data: Object
    """What happened: the `data` of the event's webhooks."""
    sequence: int | msgspec.UnsetType = msgspec.UNSET
    """The place of the event among those of its job; absent for events of no job."""


class FeedPageView(msgspec.Struct, frozen=True):
    """A page of the feed."""

    items: list[FeedItem]
    """The events, oldest first."""
    next_after: str | None
    """The `after` of the next page, also after the last one; null while the feed is empty."""
    has_more: bool
    """Whether to ask for the next page at once. A page may be empty and have a next one."""
