"""Response bodies of the event calls."""

import msgspec

from common.views.job import Object, Time


class EventItem(msgspec.Struct, frozen=True):
    """An event of a job. In terminal events, `data` is the Job as in its webhook. In others, it is what is new.

    An event that has webhooks has their `sequence`.
    """

    id: str
    type: str
    timestamp: Time
    data: Object
    sequence: int | msgspec.UnsetType = msgspec.UNSET


class EventPage(msgspec.Struct, frozen=True):
    items: list[EventItem]
    next_cursor: str | None
