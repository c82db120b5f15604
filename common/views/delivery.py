"""A delivery as clients and receivers see it: one shape for the API and for `delivery.exhausted`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from common import ids
from common.event_types import DELIVERED_TYPES
from common.postgres import sql
from common.views.delivery_errors import explain_attempt
from common.views.hidden_query import hide_query
from common.views.job import Time, format_optional_time, format_time
from common.views.job_parts import AttemptFailure

QUERIES = sql.load("common.views", "delivery.sql")

DeliveryStatus = Literal["pending", "succeeded", "exhausted", "canceled"]
DeliveredType = Annotated[str, Meta(extra_json_schema={"enum": [*DELIVERED_TYPES]})]


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of `deliveries` that the view needs."""

    id: UUID
    event_id: UUID
    event_type: str
    job_id: UUID | None
    webhook_id: UUID | None
    url: str
    status: DeliveryStatus
    created_at: datetime
    next_at: datetime | None
    finished_at: datetime | None


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, from `attempts` or from the row of the delivery that it ended."""

    delivery_id: UUID
    number: int
    started_at: datetime
    duration_ms: float
    status_code: int | None
    error: str | None
    response: bytes


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to send a webhook."""

    number: int
    """The number of the attempt, from 1."""
    started_at: Time
    """When the attempt started."""
    duration_ms: int
    """How long the attempt took, in milliseconds."""
    status_code: int | None
    """The HTTP status of the response; null without a response."""
    error: AttemptFailure | None
    """Why the attempt failed; null for success."""
    response: str
    """The first bytes of the response, as text."""


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to one receiver."""

    id: str
    """The id of the delivery. Every attempt sends it as `webhook-id`."""
    event_id: str
    """The id of the event. Its deliveries to other receivers have the same."""
    event_type: DeliveredType
    """The type of the event, as the receiver gets it."""
    job_id: str | None
    """The job of the event; null if it belongs to no job."""
    webhook_id: str | None
    """The subscription that receives the event; null for the callback of a job."""
    url: str
    """The URL of the receiver, without its query."""
    status: DeliveryStatus
    """The state. `exhausted` deliveries failed at every attempt; `canceled` ones are not sent any more."""
    created_at: Time
    """When the event was queued for this receiver."""
    next_attempt_at: Time | None
    """When the next attempt is due; null if none is."""
    finished_at: Time | None
    """When the delivery ended; null while it is pending."""
    attempts: list[DeliveryAttempt]
    """The attempts so far, oldest first."""


class DeliveryBody(msgspec.Struct, frozen=True):
    """The body of a `delivery.exhausted` event."""

    type: Annotated[str, Meta(extra_json_schema={"const": "delivery.exhausted"})]
    """The type of the event."""
    timestamp: Time
    """When Charonia gave up the delivery."""
    data: DeliveryView
    """The delivery with its attempts, and up to 1 KiB of each response."""


def view_delivery(row: DeliveryRow, attempts: Sequence[AttemptRow]) -> DeliveryView:
    """Return the view of a delivery. `attempts` may include those of others."""
    return DeliveryView(
        id=ids.encode(ids.Kind.DELIVERY, row.id),
        event_id=ids.encode(ids.Kind.EVENT, row.event_id),
        event_type=row.event_type,
        job_id=None if row.job_id is None else ids.encode(ids.Kind.JOB, row.job_id),
        webhook_id=None if row.webhook_id is None else ids.encode(ids.Kind.WEBHOOK, row.webhook_id),
        url=hide_query(row.url),
        status=row.status,
        created_at=format_time(row.created_at),
        next_attempt_at=format_optional_time(find_next_attempt(row)),
        finished_at=format_optional_time(row.finished_at),
        attempts=[view_attempt(attempt) for attempt in attempts if attempt.delivery_id == row.id],
    )


def find_next_attempt(row: DeliveryRow) -> datetime | None:
    """Return when the delivery is due: at once if it is new, or was re-sent and is due since 1970 to come first."""
    if row.status != "pending":
        return None
    return max(row.next_at or row.created_at, row.created_at)


def view_attempt(row: AttemptRow) -> DeliveryAttempt:
    """Return the view of an attempt."""
    return DeliveryAttempt(
        number=row.number,
        started_at=format_time(row.started_at),
        duration_ms=round(row.duration_ms),
        status_code=row.status_code,
        error=None if row.error is None else explain_attempt(row.error, row.status_code),
        response=row.response.decode(errors="replace"),
    )


def read_delivery(record: Mapping[str, object]) -> DeliveryRow:
    """Return the row in a record, which may have more columns."""
    return msgspec.convert(record, DeliveryRow, builtin_types=(UUID, datetime, bytes))


def read_attempt(record: Mapping[str, object]) -> AttemptRow:
    """Return the row in a record."""
    return msgspec.convert(record, AttemptRow, builtin_types=(UUID, datetime, bytes))
