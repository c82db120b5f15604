"""Every message that crosses the broker: one tagged union, with the version in the tag.

    JobQueued       gateway, sweeper    → charonia.jobs    → dispatcher
    JobsQueued      the same, for several that were committed together
    JobEvent        gateway, dispatcher → charonia.events  → notifier
    JobEvents       the same, for several
    CancelJob       gateway             → charonia.control → every dispatcher
    WaitersPresent  gateway             → charonia.control → every dispatcher
    JobsChanged     gateway, dispatcher → charonia.changes → every gateway

A message is a wake-up: it names a row and carries no state of its own. It can be lost, doubled or reordered without
harm.
"""

from uuid import UUID

import msgspec

from common.errors import Reject


class JobQueued(msgspec.Struct, frozen=True, tag="job.queued/1"):
    """A job can be claimed."""

    job_id: UUID


class JobsQueued(msgspec.Struct, frozen=True, tag="jobs.queued/1"):
    """Several jobs can be claimed."""

    job_ids: list[UUID]


class JobEvent(msgspec.Struct, frozen=True, tag="job.event/1"):
    """An event was recorded, and its deliveries are due."""

    event_id: UUID


class JobEvents(msgspec.Struct, frozen=True, tag="job.events/1"):
    """Several events were recorded. Each comes with the traceparent of a message of its own."""

    events: list[tuple[UUID, str]]


class CancelJob(msgspec.Struct, frozen=True, tag="job.cancel/1"):
    """Cancel a job, if this dispatcher runs it."""

    job_id: UUID


class WaitersPresent(msgspec.Struct, frozen=True, tag="waiters.present/1"):
    """A gateway has requests that wait for jobs: publish JobsChanged for a while."""


class JobsChanged(msgspec.Struct, frozen=True, tag="jobs.changed/1"):
    """Jobs have changed: requests that wait for one read it again."""

    job_ids: list[UUID]


Message = JobQueued | JobsQueued | JobEvent | JobEvents | CancelJob | WaitersPresent | JobsChanged

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
