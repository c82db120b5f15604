"""The events of a job's callback, as types or as patterns such as `job.*`. Pure."""

from collections.abc import Sequence

from common.jobs import EVENT_TYPES, list_patterns
from services.gateway.http.allowed_values import show
from services.gateway.http.problems import FieldError
from services.gateway.http.suggestions import suggest

JOB_EVENTS = tuple(each for each in EVENT_TYPES if each.startswith("job."))


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the event types of a job that the patterns match."""
    return [each for each in JOB_EVENTS if not set(patterns).isdisjoint(list_patterns(each))]


def find_event_errors(patterns: Sequence[str]) -> list[FieldError]:
    """Return one error for each pattern that matches no event of a job."""
    return [
        FieldError(f"/webhook/events/{index}", explain_pattern(pattern, JOB_EVENTS))
        for index, pattern in enumerate(patterns)
        if not expand([pattern])
    ]


def explain_pattern(pattern: str, types: Sequence[str]) -> str:
    """Return why a pattern is wrong that matches none of these event types."""
    text = f"must be one of {', '.join(types)}, or a pattern such as job.*; got {show(pattern)}"
    meant = suggest(pattern, types)
    return f"{text}; did you mean '{meant}'?" if meant else text
