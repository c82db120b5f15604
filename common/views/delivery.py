"""A delivery as clients and receivers see it: one shape for the API and for `delivery.exhausted`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from common import ids
from common.postgres import sql
from common.views.job import Time, format_optional_time, format_time

QUERIES = sql.load("common.views", "delivery.sql")

DeliveryStatus = Literal["pending", "succeeded", "exhausted", "canceled"]


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
    """`error` is null for success, or one of the delivery errors in docs/reference/errors.md.

    `response` is the first bytes of the response, as text.
    """

    number: int
    started_at: Time
    latency_ms: int
    status_code: int | None
    error: str | None
    response: str


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to one receiver. The id is its `webhook-id`. Without `webhook_id` it is a job's callback."""

    id: str
    event_id: str
    event_type: str
    job_id: str | None
    webhook_id: str | None
    url: str
    status: DeliveryStatus
    created_at: Time
    next_attempt_at: Time | None
    finished_at: Time | None
    attempts: list[DeliveryAttempt]


def view_delivery(row: DeliveryRow, attempts: Sequence[AttemptRow]) -> DeliveryView:
    """Return the view of a delivery. `attempts` may include those of others."""
    return DeliveryView(
        id=ids.encode(ids.Kind.DELIVERY, row.id),
        event_id=ids.encode(ids.Kind.EVENT, row.event_id),
        event_type=row.event_type,
        job_id=None if row.job_id is None else ids.encode(ids.Kind.JOB, row.job_id),
        webhook_id=None if row.webhook_id is None else ids.encode(ids.Kind.WEBHOOK, row.webhook_id),
        url=row.url,
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
        latency_ms=round(row.duration_ms),
        status_code=row.status_code,
        error=row.error,
        response=row.response.decode(errors="replace"),
    )


def read_delivery(record: Mapping[str, object]) -> DeliveryRow:
    """Return the row in a record, which may have more columns."""
    return msgspec.convert(record, DeliveryRow, builtin_types=(UUID, datetime, bytes))


def read_attempt(record: Mapping[str, object]) -> AttemptRow:
    """Return the row in a record."""
    return msgspec.convert(record, AttemptRow, builtin_types=(UUID, datetime, bytes))
