"""Forwarding sends each event until it is accepted, those of a job in order, and takes no more than it has room for."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable

import pytest
from charonia.cli.listen import forwarding
from charonia.cli.listen.fed_events import FedEvent, Progress, read_fed
from charonia.cli.listen.forwarding import Delivery, Forwarding
from charonia.cli.listen.local_receiver import Answer
from charonia.errors import InvalidResponse
from charonia.sse import ServerSentEvent

ACCEPTED, REFUSED = Answer(204, None, 1.0), Answer(500, "500", 1.0)


def make_event(number: int, job: str, body: str = "") -> FedEvent:
    data = {"type": "job.started", "timestamp": "2026-11-21T02:53:41.250Z", "data": {"id": job, "text": body}}
    return read_fed(ServerSentEvent(f"evt_{number}.{number}", json.dumps(data)))


class Receiver:
    """Answers as told, after as many turns of the loop as it is told."""

    def __init__(self, answer: Callable[[FedEvent], Awaitable[Answer]]) -> None:
        self._answer = answer
        self.accepted: dict[str, list[str]] = defaultdict(list)
        self.sending: set[str] = set()
        self.most_sending = 0

    async def send(self, event: FedEvent) -> Answer:
        assert event.order_key not in self.sending
        self.sending.add(event.order_key)
        self.most_sending = max(self.most_sending, len(self.sending))
        answer = await self._answer(event)
        self.sending.remove(event.order_key)
        if answer.error is None:
            self.accepted[event.order_key].append(event.id)
        return answer


class Run:
    """Forwarding to a receiver."""

    def __init__(self, receiver: Receiver, give_up_after: float = 60) -> None:
        self.given_up: list[str] = []
        self.finished: list[str] = []
        self.forwarding = Forwarding(
            receiver,  # type: ignore[arg-type]
            give_up_after,
            self._show,
            self._finish,
        )
        self._awaited = -1
        self._has_finished = asyncio.Event()

    def _finish(self, event: FedEvent) -> None:
        self.finished.append(event.id)
        if len(self.finished) == self._awaited:
            self._has_finished.set()

    def _show(self, delivery: Delivery, answer: Answer, is_given_up: bool) -> None:
        if is_given_up:
            self.given_up.append(delivery.event.id)

    async def finish(self, events: list[FedEvent]) -> None:
        """Add all events, and return when all are finished."""
        self._awaited = len(events)
        workers = [asyncio.create_task(self.forwarding.work()) for _ in range(forwarding.CONCURRENCY)]
        async with asyncio.timeout(20):
            for event in events:
                await self.forwarding.add(event)
            await self._has_finished.wait()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "LONGEST_PAUSE", 0.0)


async def test_each_event_is_accepted_in_the_order_of_its_job() -> None:
    tries: dict[str, int] = defaultdict(int)

    async def answer(event: FedEvent) -> Answer:
        for _ in range(hash(event.id) % 7):
            await asyncio.sleep(0)
        tries[event.id] += 1
        return ACCEPTED if tries[event.id] > len(event.id) % 3 else REFUSED

    receiver = Receiver(answer)
    events = [make_event(number, f"job_{number % 150}") for number in range(3000)]
    run = Run(receiver)
    await run.finish(events)
    assert receiver.accepted == {
        f"job_{job}": [each.id for each in events if each.subject.id == f"job_{job}"] for job in range(150)
    }
    assert (run.given_up, receiver.most_sending) == ([], forwarding.CONCURRENCY)


async def test_an_event_that_is_never_accepted_holds_only_its_job_and_is_given_up() -> None:
    async def answer(event: FedEvent) -> Answer:
        await asyncio.sleep(0)
        return REFUSED if event.id == "evt_0" else ACCEPTED

    receiver = Receiver(answer)
    run = Run(receiver, give_up_after=0.5)
    await run.finish([make_event(0, "a"), make_event(1, "a"), *(make_event(number, "b") for number in range(2, 50))])
    assert run.given_up == ["evt_0"]
    assert run.finished[-2:] == ["evt_0", "evt_1"]


@pytest.mark.parametrize(
    ("text", "room"), [("", forwarding.MOST_EVENTS), (10 * 1024 * 1024 * "x", 3), (40_000_000 * "x", 1)]
)
async def test_no_more_is_taken_than_there_is_room_for(text: str, room: int) -> None:
    async def hold(_event: FedEvent) -> Answer:
        await asyncio.Event().wait()
        return ACCEPTED

    run = Run(Receiver(hold))
    event = make_event(1, "a", text)
    for _ in range(room):
        await asyncio.wait_for(run.forwarding.add(event), 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run.forwarding.add(event), 0.05)


def test_progress_stops_before_the_first_event_that_is_not_handled() -> None:
    progress = Progress("start")
    for position in "abcd":
        progress.begin(position)
    progress.finish("b")
    progress.finish("d")
    assert progress.position == "start"
    progress.finish("a")
    assert progress.position == "b"
    progress.finish("c")
    assert progress.position == "d"


def test_an_event_of_a_later_version_is_read() -> None:
    data = '{"type":"job.moved","timestamp":"2026-11-21T02:53:41.250Z","data":{"id":7}}'
    event = read_fed(ServerSentEvent("evt_1.2", data))
    assert (event.id, event.type, event.order_key, event.body) == ("evt_1", "job.moved", "evt_1", data.encode())
    with pytest.raises(InvalidResponse, match="not an event"):
        read_fed(ServerSentEvent("evt_1.2", "[]"))
