"""The bodies of messages."""

from uuid import UUID

import pytest

from common.errors import Reject, UnknownMessage
from common.rabbitmq.messages import (
    EventsRecorded,
    JobsQueued,
    Message,
    QueuedJob,
    RecordedEvent,
    WaitersPresent,
    decode,
    encode,
)

TEXT = b"01890a5d-ac96-774b-bcce-b302099a8057"
ID = UUID(TEXT.decode())


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (
            JobsQueued([QueuedJob(ID, ID)]),
            b'{"type":"jobs.queued/1","jobs":[["01890a5d-ac96-774b-bcce-b302099a8057","01890a5d-ac96-774b-bcce-b302099a8057"]]}',
        ),
        (
            EventsRecorded([RecordedEvent(ID, "00")]),
            b'{"type":"events.recorded/1","events":[["01890a5d-ac96-774b-bcce-b302099a8057","00"]]}',
        ),
        (WaitersPresent(), b'{"type":"waiters.present/1"}'),
    ],
)
def test_bodies_stay_as_they_are(message: Message, body: bytes) -> None:
    """During an upgrade, services of other versions read them."""
    assert encode(message) == body
    assert decode(body) == message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"\xff\xfe",
        b"{}",
        b"[]",
        b'{"type":1}',
        b'{"type":"jobs.queued/1","jobs":[]}',
        b'{"type":"jobs.queued/1"}',
        b'{"type":"job.cancel/1","job_id":"x"}',
        b'{"type":"job.cancel/1","job_id":"01890a5d-ac96-774b-bcce-b302099a8057"',
        b'{"type":"job.paused/1"',
    ],
)
def test_what_is_no_message_is_rejected_with_the_reason(body: bytes) -> None:
    with pytest.raises(Reject, match=r"undecodable message: ."):
        decode(body)


@pytest.mark.parametrize("tag", ["job.paused/1", "jobs.queued/2"])
def test_a_message_of_a_later_release_is_unknown(tag: str) -> None:
    with pytest.raises(UnknownMessage, match=f"unknown type '{tag}'"):
        decode(b'{"type":"%b","jobs":[]}' % tag.encode())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"type":"waiters.present/1","more":1}', WaitersPresent()),
        (b'{"type":"jobs.queued/1","jobs":[["%b","%b",{"more":1}]]}' % (TEXT, TEXT), JobsQueued([QueuedJob(ID, ID)])),
        (b'{"type":"events.recorded/1","events":[["%b","",1,2]]}' % TEXT, EventsRecorded([RecordedEvent(ID, "")])),
    ],
)
def test_what_a_later_release_adds_is_ignored(body: bytes, message: Message) -> None:
    assert decode(body) == message
