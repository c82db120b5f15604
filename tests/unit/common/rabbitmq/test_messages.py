"""The bodies of messages."""

from uuid import UUID

import pytest

from common.errors import Reject
from common.rabbitmq.messages import EventsRecorded, JobsQueued, Message, QueuedJob, WaitersPresent, decode, encode

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (
            JobsQueued([QueuedJob(ID, ID)]),
            b'{"type":"jobs.queued/1","jobs":[["01890a5d-ac96-774b-bcce-b302099a8057","01890a5d-ac96-774b-bcce-b302099a8057"]]}',
        ),
        (
            EventsRecorded([(ID, "00")]),
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
        b'{"type":"jobs.queued/1","jobs":[]}',
        b'{"type":"job.queued/2","job_id":"01890a5d-ac96-774b-bcce-b302099a8057"}',
        b'{"type":"job.queued/1"}',
        b'{"type":"job.queued/1","job_id":"x"}',
        b'{"type":"job.event/1","job_id":"01890a5d-ac96-774b-bcce-b302099a8057"}',
        b'{"type":"job.queued/1","job_id":"01890a5d-ac96-774b-bcce-b302099a8057"',
    ],
)
def test_anything_else_is_rejected_with_the_reason(body: bytes) -> None:
    with pytest.raises(Reject, match=r"undecodable message: ."):
        decode(body)


def test_an_additional_field_of_a_later_version_is_ignored() -> None:
    assert decode(b'{"type":"waiters.present/1","more":1}') == WaitersPresent()
