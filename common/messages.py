"""Every message that crosses the broker: one tagged union, the version in the tag.

    JobQueued   gateway, sweeper    → charonia.jobs    → dispatcher
    JobsQueued  the same, for several that were committed together
    JobEvent    gateway, dispatcher → charonia.events  → notifier
    JobEvents   the same, for several
    CancelJob   gateway             → charonia.control → every dispatcher
    Listening   gateway             → charonia.control → every dispatcher
    JobsChanged gateway, dispatcher → charonia.changes → every gateway

A message is a doorbell: it names a row and carries no truth of its own, so losing, doubling or reordering one
is harmless.
"""

from uuid import UUID

import msgspec

from common.errors import Reject


class JobQueued(msgspec.Struct, frozen=True, tag="job.queued/1"):
    """A job may be claimed."""

    job_id: UUID


class JobsQueued(msgspec.Struct, frozen=True, tag="jobs.queued/1"):
    """So many jobs may be claimed."""

    job_ids: list[UUID]


class JobEvent(msgspec.Struct, frozen=True, tag="job.event/1"):
    """An event of a job was recorded; whoever asked for it is to be told."""

    event_id: UUID


class JobEvents(msgspec.Struct, frozen=True, tag="job.events/1"):
    """Events were recorded; each with the traceparent that it would have had in a message of its own."""

    events: list[tuple[UUID, str]]


class CancelJob(msgspec.Struct, frozen=True, tag="job.cancel/1"):
    """A running job is to be canceled by whoever runs it."""

    job_id: UUID


class Listening(msgspec.Struct, frozen=True, tag="listening/1"):
    """Somebody waits at a gateway: whoever changes jobs is to ring for a while."""


class JobsChanged(msgspec.Struct, frozen=True, tag="jobs.changed/1"):
    """Something happened to jobs; whoever waits for one may look."""

    job_ids: list[UUID]


Message = JobQueued | JobsQueued | JobEvent | JobEvents | CancelJob | Listening | JobsChanged

encoder = msgspec.json.Encoder()
decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    return encoder.encode(message)


def decode(body: bytes) -> Message:
    """The message in a body; raises Reject with the reason where there is none."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Reject(f"undecodable message: {error}") from error
