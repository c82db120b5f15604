"""The bodies of submits. Pure."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from charonia.errors import InvalidInput
from charonia.schemas import FieldProblem, Priority

DEFAULT_WAIT = 3600.0  # seconds
MAX_DEPTH = 100  # of metadata


class Retry(TypedDict, total=False):
    """How failed attempts are repeated. Delays are in seconds."""

    max_attempts: int
    initial_delay: float
    max_delay: float


class Webhook(TypedDict, total=False):
    """Where to send the events of a job, by default those that end it."""

    url: str
    events: Sequence[str]


class OutputTarget(TypedDict, total=False):
    """Where all outputs go: a folder of a bucket such as `s3://bucket/folder/`, which an operator lets you write to."""

    location: str


class Reuse(TypedDict):
    """Lets a job take a result of another one of yours that asked the same, up to `max_age` seconds old."""

    max_age: float


class Options(TypedDict, total=False):
    """More fields of a submit, under the API's names. Times are in seconds.

    `timeout` is that of one attempt, or of a whole run of a pipeline. `expires_in` is how long the job may wait before
    it starts, and `retain` how long it is kept after its end. `reuse` is None for a job that must run itself.
    """

    version: str
    parameters: Mapping[str, bool | int | float | str]
    run_at: datetime
    expires_in: float
    timeout: float
    retry: Retry
    fallback_model: str
    retain: float
    output: OutputTarget
    reuse: Reuse | None


def make_fields(
    model: str,
    priority: Priority | None,
    webhook: str | Webhook | None,
    metadata: Mapping[str, Any] | None,
    options: Options | None,
) -> dict[str, Any]:
    """Return the fields of a submit besides its inputs. Raise InvalidInput for one that cannot be sent."""
    if not model:
        raise InvalidInput([FieldProblem("model", "is empty; give the name of a model")])
    fields: dict[str, Any] = {"model": model}
    if priority is not None:
        fields["priority"] = priority
    if webhook is not None:
        fields["webhook"] = {"url": webhook} if isinstance(webhook, str) else webhook
    if metadata is not None:
        fields["metadata"] = metadata
    fields |= options or {}
    text = "has a NaN or an infinity, or is nested too deep; JSON has no such numbers: pass None or a text"
    if errors := [FieldProblem(f"/{name}", text) for name, value in fields.items() if has_no_json(value)]:
        raise InvalidInput(errors)
    return fields


def has_no_json(value: Any, depth: int = 0) -> bool:
    """Return whether a value has a number that JSON lacks, or is nested deeper than MAX_DEPTH."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if not isinstance(value, (Mapping, list, tuple)):
        return False
    parts = value.values() if isinstance(value, Mapping) else value
    return depth == MAX_DEPTH or any(has_no_json(each, depth + 1) for each in parts)
