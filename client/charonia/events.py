"""Events of jobs, batches and webhooks, as streams and webhooks carry them."""

from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from charonia.admin_schemas import DeliveryData
from charonia.errors import InvalidResponse
from charonia.schemas import BatchData, Failure, JobData, Output


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What is new about a job before its end."""

    id: str
    status: str
    attempt: int | None = None
    model: str | None = None
    error: Failure | None = None
    outputs: list[Output] = []


class StepProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What is new about a step of a run: the job that ended, or how many elements began.

    `id` and `status` are those of the run.
    """

    id: str
    status: str
    step: str
    job: str | None = None
    total: int | None = None


class WebhookNote(msgspec.Struct, frozen=True, kw_only=True):
    """What `webhook.test` and `webhook.disabled` say about a subscription."""

    id: str
    url: str | None = None
    description: str | None = None
    status: str | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None


class BaseEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What all known events have."""

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


class StepEvent(BaseEvent, frozen=True, kw_only=True):
    """A step of a run began, or one of its jobs ended: in the stream of the run."""

    data: StepProgress


class BatchEvent(BaseEvent, frozen=True, kw_only=True):
    """All jobs of a batch have ended."""

    data: BatchData


class DeliveryEvent(BaseEvent, frozen=True, kw_only=True):
    """Charonia gave up a webhook."""

    data: DeliveryData


class WebhookEvent(BaseEvent, frozen=True, kw_only=True):
    """A subscription is tested, or another one was disabled."""

    data: WebhookNote


class UnknownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a type or in a form that this version of the library does not know; `data` is as it came."""

    id: str = ""
    position: str = ""
    type: str
    timestamp: datetime | None
    sequence: int | None = None
    data: dict[str, Any]


Event: TypeAlias = JobEvent | ProgressEvent | StepEvent | BatchEvent | DeliveryEvent | WebhookEvent | UnknownEvent
"""What streams, the feed and `verify` return. Ask with `isinstance` which it is.

`id` is the same however often the event arrives. A later event of a job has a greater `sequence`. `position` is where
the feed of all events, or the stream of a job, goes on after this one. In the stream of a job, `id` is the position.
"""
JOB_ENDS = frozenset({"job.succeeded", "job.failed", "job.canceled", "job.expired"})
PROGRESS = frozenset({"job.queued", "job.started", "job.output", "job.canceling"})
STEPS = frozenset({"step.started", "step.succeeded", "step.failed", "step.canceled"})
_KINDS: dict[str, type[Event]] = {
    **dict.fromkeys((*JOB_ENDS, "job.started"), JobEvent),
    "batch.completed": BatchEvent,
    "delivery.exhausted": DeliveryEvent,
    "webhook.test": WebhookEvent,
    "webhook.disabled": WebhookEvent,
}


def is_of(event: Event, job_id: str | None) -> bool:
    """Return whether an event is one of this job. A stream may also have those of other jobs."""
    return (event.data.get("id") if isinstance(event, UnknownEvent) else event.data.id) == job_id


def is_end(event: Event) -> bool:
    """Return whether an event of a job is its end, also one in a state that this version does not know."""
    is_unknown_end = isinstance(event, UnknownEvent) and event.data.get("finished_at") is not None
    return event.type in JOB_ENDS or is_unknown_end


class _Body(msgspec.Struct, frozen=True):
    """What every form of an event has, or may have."""

    type: Any = None
    timestamp: Any = None
    sequence: Any = None
    data: Any = None
    object: Any = None


def parse_webhook(message_id: str, body: bytes) -> Event:
    """Return the event in the body of a webhook. Raise InvalidResponse if that is no JSON object."""
    return _parse(body, message_id, _KINDS)


def parse_fed(position: str, body: str | bytes) -> Event:
    """Return an event of the feed of all events. Raise InvalidResponse if it is no JSON object."""
    return msgspec.structs.replace(_parse(body, position.partition(".")[0], _KINDS), position=position)


def parse_streamed(position: str, body: str | bytes) -> Event:
    """Return an event of a job's stream. Raise InvalidResponse if it is no JSON object."""
    streamed = dict.fromkeys(PROGRESS, ProgressEvent) | dict.fromkeys(STEPS, StepEvent)
    return msgspec.structs.replace(_parse(body, position, _KINDS | streamed), position=position)


def _parse(body: str | bytes, event_id: str, kinds: dict[str, type[Event]]) -> Event:
    try:
        found = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidResponse(f"not an event of Charonia: {error}") from error
    name = _read(found.type, str, "")
    kind = None if found.object == "event" else kinds.get(name)  # of OpenAI's form, whose types may be named as ours
    for each in (JobEvent, ProgressEvent) if kind is JobEvent else (kind,):  # the second after an erasure
        with suppress(msgspec.ValidationError):
            if each is not None:
                return msgspec.structs.replace(msgspec.json.decode(body, type=each), id=event_id)
    return UnknownEvent(
        id=event_id,
        type=name,
        timestamp=_read(found.timestamp, datetime, None),
        sequence=_read(found.sequence, int, None),
        data=_read(found.data, dict[str, Any], {}),
    )


def _read(value: Any, kind: Any, default: Any) -> Any:
    """Return a part of an event, or the default if it is something else than expected."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return default
