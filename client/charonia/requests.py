"""The bodies of submits. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from charonia.schemas import Priority

DEFAULT_WAIT = 3600.0  # seconds


class Retry(TypedDict, total=False):
    """How failed attempts are repeated. Delays are in seconds."""

    max_attempts: int
    initial_delay: float
    max_delay: float


class Webhook(TypedDict, total=False):
    """Where to send the events of a job, by default those that end it."""

    url: str
    events: Sequence[str]


class Options(TypedDict, total=False):
    """More fields of a submit, under the API's names. Times are in seconds.

    `timeout` is that of one attempt, `expires_in` how long the job may wait before it starts, and `retain` how long it
    is kept after its end.
    """

    version: str
    parameters: Mapping[str, bool | int | float | str]
    run_at: datetime
    expires_in: float
    timeout: float
    retry: Retry
    fallback_model: str
    retain: float


def make_fields(
    model: str,
    priority: Priority | None,
    webhook: str | Webhook | None,
    metadata: Mapping[str, Any] | None,
    options: Options | None,
) -> dict[str, Any]:
    """Return the fields of a submit besides its inputs."""
    fields: dict[str, Any] = {"model": model}
    if priority is not None:
        fields["priority"] = priority
    if webhook is not None:
        fields["webhook"] = {"url": webhook} if isinstance(webhook, str) else webhook
    if metadata is not None:
        fields["metadata"] = metadata
    return {**fields, **(options or {})}
