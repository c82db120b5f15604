"""Events of jobs, batches and webhooks, as streams and webhooks carry them."""

from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from charonia.admin_schemas import DeliveryData
from charonia.errors import InvalidResponse
from charonia.schemas import BatchData, Failure, JobData, Output, Status


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What is new about a job before its end."""

    id: str
    status: Status
    attempt: int | None = None
    model: str | None = None
    error: Failure | None = None
    outputs: list[Output] = []


class WebhookNote(msgspec.Struct, frozen=True, kw_only=True):
    """What `webhook.test` and `webhook.disabled` say about a subscription."""

    webhook_id: str | None = None
    id: str | None = None
    url: str | None = None
    description: str | None = None
    status: str | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None


class BaseEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the same however often the event arrives. A later event of a job has a greater `sequence`.

    `position` is where the feed of all events goes on after this one.
    """

    id: str = ""
    position: str = ""
    type: str
    timestamp: datetime
    sequence: int | None = None


class JobEvent(BaseEvent, frozen=True, kw_only=True):
    """A job started or ended; `data` is the whole job."""

    data: JobData


class ProgressEvent(BaseEvent, frozen=True, kw_only=True):
    """A job was queued, started, sent a partial output or is being canceled: in streams.

    After an erasure it stands for any event of the job.
    """

    data: JobProgress


class BatchEvent(BaseEvent, frozen=True, kw_only=True):
    """All jobs of a batch have ended."""

    data: BatchData


class DeliveryEvent(BaseEvent, frozen=True, kw_only=True):
    """Charonia gave up a webhook."""

    data: DeliveryData


class WebhookEvent(BaseEvent, frozen=True, kw_only=True):
    """A subscription is tested, or another one was disabled."""

    data: WebhookNote


class UnknownEvent(BaseEvent, frozen=True, kw_only=True):
    """An event of a type that this version of the library does not know."""

    data: dict[str, Any]


Event: TypeAlias = JobEvent | ProgressEvent | BatchEvent | DeliveryEvent | WebhookEvent | UnknownEvent
JOB_ENDS = frozenset({"job.succeeded", "job.failed", "job.canceled", "job.expired"})
PROGRESS = frozenset({"job.queued", "job.started", "job.output", "job.canceling"})
_KINDS: dict[str, type[Event]] = {
    **dict.fromkeys((*JOB_ENDS, "job.started"), JobEvent),
    "batch.completed": BatchEvent,
    "delivery.exhausted": DeliveryEvent,
    "webhook.test": WebhookEvent,
    "webhook.disabled": WebhookEvent,
}


class _Type(msgspec.Struct, frozen=True):
    type: str


def parse_webhook(message_id: str, body: bytes) -> Event:
    """Return the event in the body of a webhook. Raise InvalidResponse if it is none."""
    return _parse(body, message_id, _KINDS)


def parse_fed(position: str, body: str | bytes) -> Event:
    """Return an event of the feed of all events. Raise InvalidResponse if it is none."""
    return msgspec.structs.replace(_parse(body, position.partition(".")[0], _KINDS), position=position)


def parse_streamed(event_id: str, body: str | bytes) -> Event:
    """Return an event of a stream. Raise InvalidResponse if it is none."""
    return _parse(body, event_id, _KINDS | dict.fromkeys(PROGRESS, ProgressEvent))


def _parse(body: str | bytes, event_id: str, kinds: dict[str, type[Event]]) -> Event:
    try:
        kind = kinds.get(msgspec.json.decode(body, type=_Type).type, UnknownEvent)
        return msgspec.structs.replace(_decode(body, kind), id=event_id)
    except msgspec.DecodeError as error:
        raise InvalidResponse(f"not an event of Charonia: {error}") from error


def _decode(body: str | bytes, kind: type[Event]) -> Event:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        if kind is UnknownEvent:
            raise
        return msgspec.json.decode(body, type=ProgressEvent)  # the payload of the job was erased since
