"""Every message that crosses the broker: one tagged union, with the version in the tag.

    JobsQueued      gateway, dispatcher → charonia.jobs    → dispatcher
    EventsRecorded  every service       → charonia.events  → notifier
    CancelJob       gateway             → charonia.control → every dispatcher
    WaitersPresent  gateway             → charonia.control → every dispatcher
    JobsChanged     gateway, dispatcher → charonia.changes → every gateway
    KeysRevoked     keys command, gateway → charonia.changes → every gateway

A message is a wake-up: it names a row and carries no state of its own. It can be lost, doubled or reordered without
harm.

A later release may add fields to a message and elements to an array in it, which are ignored here. A message that means
something else gets another tag.
"""

from typing import Annotated, get_args
from uuid import UUID

import msgspec

from common.errors import Reject, UnknownMessage

SHOWN_TAG = 100  # characters


class QueuedJob(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job that can be claimed, and its tenant."""

    tenant_id: UUID
    id: UUID


class RecordedEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event whose deliveries are due. `traceparent` may be empty."""

    id: UUID
    traceparent: str


class JobsQueued(msgspec.Struct, frozen=True, tag="jobs.queued/1"):
    """Jobs of the queue's model can be claimed. Each announcement starts one of the jobs that wait, if there is one."""

    jobs: Annotated[list[QueuedJob], msgspec.Meta(min_length=1, max_length=1000)]


class EventsRecorded(msgspec.Struct, frozen=True, tag="events.recorded/1"):
    """Events were recorded."""

    events: list[RecordedEvent]


class CancelJob(msgspec.Struct, frozen=True, tag="job.cancel/1"):
    """Cancel a job, if this dispatcher runs it."""

    job_id: UUID


WAITERS_SECONDS = 15.0  # after which a gateway repeats WaitersPresent, while it has waiters


class WaitersPresent(msgspec.Struct, frozen=True, tag="waiters.present/1"):
    """A gateway has requests that wait for jobs: publish JobsChanged for a while."""


class JobsChanged(msgspec.Struct, frozen=True, tag="jobs.changed/1"):
    """Jobs have changed, or batches were completed: requests that wait for one read it again."""

    job_ids: list[UUID]


class KeysRevoked(msgspec.Struct, frozen=True, tag="keys.revoked/1"):
    """An API key was revoked: look up every key again."""


Message = JobsQueued | EventsRecorded | CancelJob | WaitersPresent | JobsChanged | KeysRevoked

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_TAGS = frozenset(each.__struct_config__.tag for each in get_args(Message))


class _Tagged(msgspec.Struct):
    type: str


_tag_decoder = msgspec.json.Decoder(_Tagged)


def encode(message: Message) -> bytes:
    """Return the body of a message."""
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """Return the message in a body. Raise UnknownMessage for one of a later release, Reject if there is none."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (tag := _find_tag(body)) is not None and tag not in _TAGS:
            raise UnknownMessage(f"unknown type '{tag[:SHOWN_TAG]}'") from error
        raise Reject(f"undecodable message: {error}") from error


def _find_tag(body: bytes) -> str | None:
    try:
        return _tag_decoder.decode(body).type
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
