"""A delivery as its tenant sees it: one shape for the API and for the event that tells of its end."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from common import ids, sql
from common.job_view import Time, show_optional, show_time

QUERIES = sql.load("common", "delivery_view.sql")

DeliveryStatus = Literal["pending", "succeeded", "exhausted", "canceled"]


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
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
    delivery_id: UUID
    number: int
    started_at: datetime
    duration_ms: float
    status_code: int | None
    error: str | None
    response: bytes


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is null for success, else one of the names in docs/webhooks.md; `response` is the answer's first bytes,
    as text."""

    number: int
    started_at: Time
    latency_ms: int
    status_code: int | None
    error: str | None
    response: str


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to one receiver; the id is its `webhook-id`. Without `webhook_id` it is a job's callback."""

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
    return DeliveryView(
        id=ids.show(ids.Kind.DELIVERY, row.id),
        event_id=ids.show(ids.Kind.EVENT, row.event_id),
        event_type=row.event_type,
        job_id=None if row.job_id is None else ids.show(ids.Kind.JOB, row.job_id),
        webhook_id=None if row.webhook_id is None else ids.show(ids.Kind.WEBHOOK, row.webhook_id),
        url=row.url,
        status=row.status,
        created_at=show_time(row.created_at),
        # What goes before everything else is due since 1970.
        next_attempt_at=None if row.next_at is None else show_time(max(row.next_at, row.created_at)),
        finished_at=show_optional(row.finished_at),
        attempts=[view_attempt(attempt) for attempt in attempts if attempt.delivery_id == row.id],
    )


def view_attempt(row: AttemptRow) -> DeliveryAttempt:
    return DeliveryAttempt(
        number=row.number,
        started_at=show_time(row.started_at),
        latency_ms=round(row.duration_ms),
        status_code=row.status_code,
        error=row.error,
        response=row.response.decode(errors="replace"),
    )


def read_delivery(record: Mapping[str, object]) -> DeliveryRow:
    """The row in a record that has these columns, others ignored."""
    return msgspec.convert(record, DeliveryRow, builtin_types=(UUID, datetime, bytes))


def read_attempt(record: Mapping[str, object]) -> AttemptRow:
    return msgspec.convert(record, AttemptRow, builtin_types=(UUID, datetime, bytes))
