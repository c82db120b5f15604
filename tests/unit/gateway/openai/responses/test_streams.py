"""A stream of a response, read from the history of its job."""

import warnings
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from common.job_states import Status
from services.gateway.http.limits.response_limits import LEASE
from services.gateway.openai.responses.echo import Echo, show
from tests.unit.gateway.samples import ROW

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's parameters
    from services.gateway.events.history import Event
    from services.gateway.jobs.store import FoundJob
    from services.gateway.openai.calls.record import Endpoint
    from services.gateway.openai.calls.submission import Call, Caller
    from services.gateway.openai.dependencies import OpenAIServices
    from services.gateway.openai.responses.streams import ResponseStream

ECHO = Echo(model="echo", stream=True)
STARTED = Event("1.0", "job.started", b"{}")
QUEUED = Event("0.0", "job.queued", b"{}")
AGAIN = Event("1.2147483646", "job.queued", b"{}")
RESTARTED = Event("2.0", "job.started", b"{}")
ENDED = Event("2.2147483647", "job.succeeded", b"{}")


def say(claim: int, number: int, text: str) -> Event:
    return Event(f"{claim}.{number}", "job.output", text.encode())


# An attempt failed after two words. The next one says the same, in other pieces.
HISTORY = [
    QUEUED,
    STARTED,
    say(1, 2, "one "),
    say(1, 4, "two "),
    AGAIN,
    RESTARTED,
    say(2, 2, "one two th"),
    say(2, 4, "ree"),
    ENDED,
]


class World:
    """Services that have one job."""

    def __init__(self, history: Sequence[Event], status: Status = Status.SUCCEEDED, texts: Sequence[str] = ()) -> None:
        row = msgspec.structs.replace(ROW, status=status)
        self.found: FoundJob | None = FoundJob(row, None, "none", None, erased=False)
        self._history = history
        self._outputs = [{"text": [text.encode()]} for text in texts]
        self.canceled: list[Call] = []

    async def _follow(self, *_: Any) -> AsyncIterator[Event | None]:
        for event in self._history:
            yield None
            yield event

    async def _read_event(self, _caller: Any, _row: Any, event: Event) -> list[Any]:
        return [{"text": [event.body]}] if event.type == "job.output" else []

    async def _find_job(self, *_: Any) -> FoundJob | None:
        return self.found

    async def _read(self, *_: Any) -> list[Any]:
        return self._outputs

    async def _recheck(self, _caller: Any) -> None:
        return

    def make(self, echo: Echo = ECHO, after: int = -1) -> ResponseStream:
        services = SimpleNamespace(
            answers=SimpleNamespace(read=self._read),
            streams=SimpleNamespace(read_event=self._read_event, cancel_soon=self.canceled.append),
            jobs=SimpleNamespace(
                authenticator=SimpleNamespace(recheck=self._recheck),
                events=SimpleNamespace(history=SimpleNamespace(follow=self._follow)),
                store=SimpleNamespace(find_job=self._find_job),
            ),
        )
        caller = SimpleNamespace(scope={LEASE: None}, user=None)
        return ResponseStream(cast(OpenAIServices, services), cast(Caller, caller), ROW, echo, after)

    async def read(self, echo: Echo = ECHO, after: int = -1) -> list[Any]:
        frames = [frame async for frame in self.make(echo, after).send()]
        return [msgspec.json.decode(frame.split(b"data: ")[1]) for frame in frames if frame != b":\n"]


async def test_a_new_attempt_repeats_nothing() -> None:
    events = await World(HISTORY, texts=["one two th", "ree"]).read()
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["delta"] for event in events if "delta" in event] == ["one ", "two ", "th", "ree"]
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "one two three"


async def test_every_reader_gets_the_same_numbers() -> None:
    world = World(HISTORY, texts=["one two th", "ree"])
    whole = await world.read()
    for after in range(len(whole)):
        assert await world.read(after=after) == whole[after + 1 :]


async def test_a_number_after_the_last_is_an_error_that_says_the_last() -> None:
    world = World(HISTORY, texts=["one two th", "ree"])
    last = (await world.read())[-1]["sequence_number"]
    assert await world.read(after=last) == []
    (error,) = await world.read(after=last + 1)
    assert (error["type"], error["code"], error["param"]) == ("error", "invalid_value", "starting_after")
    assert f"is {last + 1}, and the last event of this response has the number {last}" in error["message"]


async def test_one_in_the_background_is_queued_first() -> None:
    events = await World(HISTORY, texts=["one two th", "ree"]).read(Echo(model="echo", background=True))
    shown = [(event["type"], event["response"]["status"]) for event in events[:3]]
    assert shown == [
        ("response.created", "queued"),
        ("response.queued", "queued"),
        ("response.in_progress", "in_progress"),
    ]


async def test_a_model_that_does_not_stream_writes_one_piece() -> None:
    events = await World([QUEUED, STARTED, ENDED], texts=["one two three"]).read()
    assert [event["delta"] for event in events if "delta" in event] == ["one two three"]
    assert events[-1]["type"] == "response.completed"


@pytest.mark.parametrize("status", [Status.FAILED, Status.EXPIRED, Status.CANCELED])
async def test_a_job_without_an_answer_ends_the_stream_as_failed(status: Status) -> None:
    events = await World([QUEUED, ENDED], status).read()
    assert [event["type"] for event in events] == ["response.created", "response.failed"]
    assert events[-1]["response"]["status"] == ("cancelled" if status is Status.CANCELED else "failed")


async def test_a_stream_that_cannot_go_on_says_after_which_event_to_ask() -> None:
    events = await World(HISTORY[:4], Status.PROCESSING).read()
    assert (events[-1]["type"], events[-1]["code"]) == ("error", "unavailable")
    assert events[-1]["sequence_number"] == events[-2]["sequence_number"] == 5


async def test_another_text_after_a_restart_is_an_error() -> None:
    other = [*HISTORY[:6], say(2, 2, "something else"), ENDED]
    events = await World(other, texts=["something else"]).read()
    assert (events[-1]["type"], events[-1]["code"]) == ("error", "stream_restarted")
    assert [event["delta"] for event in events if "delta" in event] == ["one ", "two "]


async def test_a_response_that_is_deleted_meanwhile_is_gone() -> None:
    world = World(HISTORY)
    world.found = None
    assert (await world.read())[-1]["code"] == "gone"


@pytest.mark.parametrize("is_read_to_its_end", [False, True])
async def test_only_a_client_that_leaves_cancels(is_read_to_its_end: bool) -> None:
    world = World(HISTORY, texts=["one two th", "ree"])
    call = Call(Endpoint.RESPONSES, ROW, show(ECHO), is_kept=False, replayed=False)
    sending = cast(Any, world.make().send(call))
    async for frame in sending:
        if not is_read_to_its_end and b"delta" in frame:
            break
    await sending.aclose()
    assert world.canceled == ([] if is_read_to_its_end else [call])


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_stream_that_cannot_go_on_cancels_only_what_nobody_can_get(is_stored: bool) -> None:
    world, echo = World(HISTORY[:4], Status.PROCESSING), Echo(model="echo", stream=True, store=is_stored)
    call = Call(Endpoint.RESPONSES, ROW, show(echo), is_kept=False, replayed=False)
    frames = [frame async for frame in world.make(echo).send(call)]
    assert b'"code":"unavailable"' in frames[-1]
    assert world.canceled == ([] if is_stored else [call])
