"""Types of events, and patterns of them such as `job.*`, as callbacks, subscriptions and the feed take them. Pure."""

import re
from collections.abc import Sequence

from common.event_types import DELIVERED_TYPES, EVENT_TYPES, JOB_EVENT_TYPES, list_patterns
from services.gateway.http.problems import FieldError, invalid
from services.gateway.http.validation.allowed_values import show
from services.gateway.http.validation.suggestions import suggest

ALL_TYPES = ("*",)


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the event types of a job that the patterns match."""
    return [each for each in JOB_EVENT_TYPES if matches(each, patterns)]


def find_event_errors(patterns: Sequence[str]) -> list[FieldError]:
    """Return one error for each pattern that matches no event of a job."""
    return [
        FieldError(f"/webhook/events/{index}", explain_pattern(pattern, JOB_EVENT_TYPES))
        for index, pattern in enumerate(patterns)
        if not expand([pattern])
    ]


def check_patterns(parameter: str, patterns: Sequence[str], types: Sequence[str] = EVENT_TYPES) -> None:
    """Raise Problem (422) for a pattern that matches none of these event types."""
    known = list_all_patterns(types)
    wrong = next((each for each in patterns if each not in known), None)
    if wrong is not None:
        raise invalid(FieldError(parameter, explain_pattern(wrong, types)))


def matches(event_type: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns matches an event type."""
    return not set(patterns).isdisjoint(list_patterns(event_type))


def read_patterns(parameter: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the types of delivered events that the patterns match. Raises Problem (422) for one that matches none."""
    check_patterns(parameter, patterns, DELIVERED_TYPES)
    return tuple(each for each in DELIVERED_TYPES if matches(each, patterns))


def read_types(text: str | None) -> tuple[str, ...]:
    """Return the patterns of the types that a reader of the feed wants: by default of all, also of a later release's.

    Raises Problem (422) for a pattern that matches no type.
    """
    if text is None:
        return ALL_TYPES
    patterns = tuple(text.split(","))
    check_patterns("types", patterns)
    return patterns


def list_all_patterns(types: Sequence[str]) -> tuple[str, ...]:
    """Return every pattern that matches one of these event types."""
    return tuple(dict.fromkeys(pattern for event_type in types for pattern in list_patterns(event_type)))


def document_patterns(types: Sequence[str]) -> dict[str, str]:
    """Return the JSON schema of a pattern that matches one of these event types."""
    return {"pattern": f"^({'|'.join(map(re.escape, list_all_patterns(types)))})$"}


def explain_pattern(pattern: str, types: Sequence[str]) -> str:
    """Return why a pattern is wrong that matches none of these event types."""
    text = f"must be one of {', '.join(types)}, or a pattern such as job.*; got {show(pattern)}"
    meant = suggest(pattern, types)
    return f"{text}; did you mean '{meant}'?" if meant else text
