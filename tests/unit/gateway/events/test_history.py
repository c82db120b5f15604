"""Events of a job: their ids and bodies, and following them."""

import asyncio
import warnings
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import ids
from common.job_states import Status
from common.rabbitmq.publisher import Publisher
from common.views.job import JobUrls
from services.gateway.auth.store import Key
from services.gateway.events.history import (
    PAGE_BYTES,
    PAGE_EVENTS,
    JobHistory,
    format_event_id,
    parse_event_id,
    to_event,
)
from services.gateway.events.store import START, EventPosition, EventStore, HistoryRow, JobSnapshot
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from services.gateway.http.limits import response_budget
from services.gateway.http.limits.response_budget import ResponseBudget
from services.gateway.http.limits.response_limits import ResponseLease
from services.gateway.http.problems import Problem
from tests.unit.clock import LATE

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's parameters
    from services.gateway.events.routes import read_page

AT = datetime(2026, 1, 1, tzinfo=UTC)
JOB = ids.new()
KEY = Key(ids.new(), ids.new())
LARGE = b"[%b]" % (b" " * PAGE_BYTES)


@given(st.integers(0, 10**18 - 1), st.integers(0, 2**31 - 1))
def test_an_event_id_round_trips(claim: int, number: int) -> None:
    position = EventPosition(claim, number)
    assert parse_event_id(format_event_id(position)) == position


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.0", "1.-1", "1.0.0", "1,0", "1.2147483648", "١.٢", " 1.0"])
def test_an_invalid_event_id_is_none(text: str) -> None:
    assert parse_event_id(text) is None


def test_an_output_event_has_its_outputs() -> None:
    row = HistoryRow(EventPosition(2, 1), "job.output", AT, b'[{"name":"y"}]', None, None, None, None)
    event = to_event(JOB, row, JobUrls())
    assert (event.id, event.type, event.is_end) == ("2.1", "job.output", False)
    assert msgspec.json.decode(event.body) == {
        "type": "job.output",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "data": {"id": ids.encode(ids.Kind.JOB, JOB), "status": "processing", "outputs": [{"name": "y"}]},
    }


def test_an_event_of_a_step_has_the_data_of_its_run() -> None:
    row = HistoryRow(EventPosition(1, 3), "step.started", AT, b'{"step":"a","job":null}', None, None, None, None)
    event = to_event(JOB, row, JobUrls())
    assert (event.id, event.type, event.is_end) == ("1.3", "step.started", False)
    assert msgspec.json.decode(event.body) == {
        "type": "step.started",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "data": {"id": ids.encode(ids.Kind.JOB, JOB), "status": "processing", "step": "a", "job": None},
    }


def test_a_requeue_event_has_the_error() -> None:
    row = HistoryRow(EventPosition(2, 2), "job.queued", AT, None, 1, "echo", "timeout", "too long")
    data = msgspec.json.decode(to_event(JOB, row, JobUrls()).body)["data"]
    assert data == {
        "id": ids.encode(ids.Kind.JOB, JOB),
        "status": "queued",
        "attempt": 1,
        "model": "echo",
        "error": {"code": "timeout", "message": "too long"},
    }


def test_a_terminal_event_is_the_webhook_body_byte_for_byte() -> None:
    event = to_event(
        JOB, HistoryRow(EventPosition(2, 2**31 - 1), "job.failed", AT, b"{ }", None, None, None, None), JobUrls()
    )
    assert (event.body, event.is_end) == (b"{ }", True)


class FakeStore(EventStore):
    """A queued job, and how often its history was read."""

    def __init__(self) -> None:
        self.queries = 0

    async def find_snapshots(self, jobs: Sequence[UUID]) -> dict[UUID, JobSnapshot]:
        return dict.fromkeys(jobs, JobSnapshot(Status.QUEUED, 0, 0))

    async def list_history(self, _job_id: UUID, after: EventPosition, _limit: int, _size: int) -> list[HistoryRow]:
        self.queries += 1
        queued = HistoryRow(EventPosition(0, 0), "job.queued", AT, None, None, None, None, None)
        return [queued] if after == START else []

    async def find_revoked(self, keys: Collection[UUID]) -> set[UUID]:
        return set(keys)


class LargeStore(FakeStore):
    """A job with a large response, whose body `list_history` leaves out."""

    async def list_history(self, job_id: UUID, after: EventPosition, limit: int, size: int) -> list[HistoryRow]:
        rows = await super().list_history(job_id, after, limit, size)
        response = HistoryRow(EventPosition(1, 1), "job.output", AT, None, None, None, None, None, len(LARGE))
        return [*rows, response] if after < response.position else []

    async def read_response(self, _job_id: UUID, _position: EventPosition) -> bytes:
        return LARGE


class LaterStore(FakeStore):
    """A page of events of a later release, then one that is known."""

    async def list_history(self, job_id: UUID, after: EventPosition, limit: int, size: int) -> list[HistoryRow]:
        self.queries += 1
        types = ["job.paused"] * PAGE_EVENTS + ["job.canceling"]
        rows = [
            HistoryRow(EventPosition(1, number), kind, AT, None, None, None, None, None)
            for number, kind in enumerate(types)
        ]
        return [row for row in rows if row.position > after][:limit]


def make_lease(total: int = 2 * len(LARGE)) -> ResponseLease:
    return ResponseLease(ResponseBudget(total))


def build(store: FakeStore) -> Waiters:
    return Waiters(store, WaiterPresence(Publisher("amqp://nobody/", "g")), lambda: True)


async def test_events_of_a_later_release_are_passed_over() -> None:
    store = LaterStore()
    history = JobHistory(store, build(store), JobUrls(), 0.001)
    following = history.follow(JOB, KEY, make_lease(), START)
    events = [await anext(following) for _ in range(2)]
    await following.aclose()
    assert [event and event.type for event in events] == ["job.canceling", None]
    assert store.queries == 2
    page = await read_page(history, JOB, KEY, make_lease(), START, 9)
    assert (page.items, page.next_cursor) == ([], "1.9")
    assert not await history.has_events(JOB, EventPosition(1, PAGE_EVENTS))
    assert await history.has_events(JOB, EventPosition(1, PAGE_EVENTS - 2))


async def test_a_keep_alive_causes_no_query() -> None:
    store = FakeStore()
    waiters = build(store)
    following = JobHistory(store, waiters, JobUrls(), 0.001).follow(JOB, KEY, make_lease(), START)
    events = [await anext(following) for _ in range(4)]
    await following.aclose()
    assert [event and event.type for event in events] == ["job.queued", None, None, None]
    assert store.queries == 1


async def test_a_stream_ends_when_the_key_is_revoked() -> None:
    store = FakeStore()
    waiters = build(store)
    following = JobHistory(store, waiters, JobUrls(), 30.0).follow(JOB, KEY, make_lease(), START)
    await anext(following)
    quiet = asyncio.create_task(anext(following, None))
    await waiters.wake_revoked()
    with pytest.raises(Problem) as caught:
        await asyncio.wait_for(quiet, LATE)
    assert (caught.value.status, waiters.count) == (401, 0)


async def test_a_stream_holds_room_for_a_large_response_until_it_is_sent() -> None:
    budget, store = ResponseBudget(2 * len(LARGE)), LargeStore()
    following = JobHistory(store, build(store), JobUrls(), 0.001).follow(JOB, KEY, ResponseLease(budget), START)
    events = [await anext(following) for _ in range(2)]
    assert [(event.type, len(event.body) > PAGE_BYTES) for event in events if event] == [
        ("job.queued", False),
        ("job.output", True),
    ]
    assert budget.free == len(LARGE)
    assert await anext(following) is None
    assert budget.free == 2 * len(LARGE)
    await following.aclose()


async def test_a_large_response_without_room_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_budget, "WAIT_SECONDS", 0.01)
    budget, store = ResponseBudget(len(LARGE)), LargeStore()
    await ResponseLease(budget).reserve(ids.new(), len(LARGE))
    waiters = build(store)
    following = JobHistory(store, waiters, JobUrls(), 30.0).follow(JOB, KEY, ResponseLease(budget), START)
    with pytest.raises(Problem) as caught:
        [event async for event in following]
    assert (caught.value.status, waiters.count) == (503, 0)


async def test_a_stream_ends_after_a_client_that_reads_too_slowly() -> None:
    lease, store = make_lease(), LargeStore()
    following = JobHistory(store, build(store), JobUrls(), 30.0).follow(JOB, KEY, lease, START)
    await anext(following)
    await anext(following)
    lease.is_cut = True
    assert [event async for event in following] == []
