"""The mistakes in what a subscription asks for. Pure."""

from collections.abc import Mapping, Sequence

from common.jobs import EVENT_TYPES, list_patterns
from common.webhook_headers import find_mistake
from services.gateway.errors import FieldError
from services.gateway.tensors import escape

PATTERNS = frozenset(pattern for event_type in EVENT_TYPES for pattern in list_patterns(event_type))


def check_headers(headers: Mapping[str, str]) -> list[FieldError]:
    return [
        FieldError(f"/headers/{escape(name)}", mistake)
        for name, value in headers.items()
        if (mistake := find_mistake(name, value)) is not None
    ]


def check_patterns(events: Sequence[str]) -> list[FieldError]:
    return [
        FieldError(f"/events/{index}", f"matches no event; the events are {', '.join(EVENT_TYPES)}")
        for index, pattern in enumerate(events)
        if pattern not in PATTERNS
    ]
