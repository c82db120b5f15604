"""Every message that crosses the broker: one tagged union, with the version in the tag.

    JobsQueued      gateway, dispatcher → charonia.jobs    → dispatcher
    EventsRecorded  every service       → charonia.events  → notifier
    CancelJob       gateway             → charonia.control → every dispatcher
    WaitersPresent  gateway             → charonia.control → every dispatcher
    JobsChanged     gateway, dispatcher → charonia.changes → every gateway
    KeysRevoked     keys command, gateway → charonia.changes → every gateway

A message is a wake-up: it names a row and carries no state of its own. It can be lost, doubled or reordered without
harm.
"""

from typing import Annotated, NamedTuple
from uuid import UUID

import msgspec

from common.errors import Reject


class QueuedJob(NamedTuple):
    """A job that can be claimed, and its tenant."""

    tenant_id: UUID
    id: UUID


class JobsQueued(msgspec.Struct, frozen=True, tag="jobs.queued/1"):
    """Jobs of the queue's model can be claimed. Each announcement starts one of the jobs that wait, if there is one."""

    jobs: Annotated[list[QueuedJob], msgspec.Meta(min_length=1, max_length=1000)]


class EventsRecorded(msgspec.Struct, frozen=True, tag="events.recorded/1"):
    """Events were recorded, each with its traceparent. Their deliveries are due."""

    events: list[tuple[UUID, str]]


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


def encode(message: Message) -> bytes:
    """Return the body of a message."""
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """Return the message in a body. Raise Reject, with the reason, if there is none."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Reject(f"undecodable message: {error}") from error
