"""The events of a stream, and their numbers."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from common.job_states import Status
from services.gateway.openai.kinds.pieces import Piece, Transcript
from services.gateway.openai.problems import ErrorBody, OpenAIError
from services.gateway.openai.responses.echo import Echo
from services.gateway.openai.responses.events import EventWriter
from services.gateway.openai.responses.rendering import Answer, write_response
from services.gateway.openai.responses.views import OpenAIResponse
from tests.unit.gateway.samples import ROW

ERROR = OpenAIError(ErrorBody("gone", "server_error", None, "unavailable"))
WHOLE = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


def respond(status: Status, text: str | None = None, reason: str = "stop") -> OpenAIResponse:
    transcript = Transcript()
    transcript.add(Piece((text or "").encode(), reason))
    answer = None if text is None else Answer(text, transcript)
    return write_response(msgspec.structs.replace(ROW, status=status), Echo(model="echo"), answer)


def read(frames: Sequence[bytes]) -> list[Any]:
    found = []
    for each in frames:
        name, data, rest = each.split(b"\n", 2)
        assert rest == b"\n"
        found.append(msgspec.json.decode(data.removeprefix(b"data: ")))
        assert name == b"event: " + found[-1]["type"].encode()
    return found


def write_all(after: int = -1) -> list[Any]:
    writer = EventWriter("msg_1", after)
    frames = [
        *writer.write_state("response.created", respond(Status.PROCESSING)),
        *writer.write_state("response.in_progress", respond(Status.PROCESSING)),
        *writer.write_text("one "),
        *writer.write_text("two"),
        *writer.write_end(respond(Status.SUCCEEDED, "one two")),
    ]
    return read(frames)


def test_a_stream_has_the_events_of_openai_in_their_order() -> None:
    found = write_all()
    assert [event["type"] for event in found] == WHOLE
    assert [event["sequence_number"] for event in found] == list(range(len(WHOLE)))
    assert [event["delta"] for event in found if "delta" in event] == ["one ", "two"]
    assert found[2]["item"] == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    assert found[3]["part"]["text"] == ""
    assert (found[6]["text"], found[7]["part"]["text"]) == ("one two", "one two")
    assert found[9]["response"]["output"] == [found[8]["item"]]


@pytest.mark.parametrize("after", range(len(WHOLE)))
def test_a_stream_goes_on_after_any_event(after: int) -> None:
    assert write_all(after) == write_all()[after + 1 :]


def test_an_answer_without_a_text_has_its_events_too() -> None:
    found = read(EventWriter("msg_1").write_end(respond(Status.SUCCEEDED, "")))
    assert [event["type"] for event in found] == [*WHOLE[2:4], *WHOLE[6:]]


@pytest.mark.parametrize(
    ("response", "kind", "status"),
    [
        (respond(Status.SUCCEEDED, "hi", "length"), "response.incomplete", "incomplete"),
        (respond(Status.FAILED), "response.failed", "failed"),
        (respond(Status.CANCELED), "response.failed", "cancelled"),
    ],
)
def test_the_last_event_says_how_a_response_ended(response: OpenAIResponse, kind: str, status: str) -> None:
    last = read(EventWriter("msg_1").write_end(response))[-1]
    assert (last["type"], last["response"]["status"]) == (kind, status)


def test_an_error_has_the_number_of_the_event_before() -> None:
    writer = EventWriter("msg_1")
    writer.write_state("response.created", respond(Status.QUEUED))
    (found,) = read([writer.write_error(ERROR)])
    assert found == {"type": "error", "sequence_number": 0, "code": "unavailable", "message": "gone", "param": None}
    resumed = EventWriter("msg_1", after=7)
    resumed.write_state("response.created", respond(Status.QUEUED))
    (found,) = read([resumed.write_error(ERROR)])
    assert found["sequence_number"] == 7
