"""Events of a job: their ids and bodies, and following them."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import cast
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import ids
from common.jobs import Status
from common.rabbitmq.publisher import Publisher
from services.gateway.auth.store import Key
from services.gateway.events.history import JobHistory, format_event_id, parse_event_id, to_event
from services.gateway.events.store import START, EventPosition, EventStore, HistoryRow, JobSnapshot
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from services.gateway.http.problems import Problem

AT = datetime(2026, 1, 1, tzinfo=UTC)
JOB = ids.new()


@given(st.integers(0, 10**18 - 1), st.integers(0, 2**31 - 1))
def test_an_event_id_round_trips(claim: int, number: int) -> None:
    position = EventPosition(claim, number)
    assert parse_event_id(format_event_id(position)) == position


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.0", "1.-1", "1.0.0", "1,0", "1.2147483648", "١.٢", " 1.0"])
def test_an_invalid_event_id_is_none(text: str) -> None:
    assert parse_event_id(text) is None


def test_an_output_event_has_its_outputs() -> None:
    row = HistoryRow(EventPosition(2, 1), "job.output", AT, b'[{"name":"y"}]', None, None, None, None)
    event = to_event(JOB, row)
    assert (event.id, event.type, event.is_end) == ("2.1", "job.output", False)
    assert msgspec.json.decode(event.body) == {
        "type": "job.output",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "data": {"id": ids.encode(ids.Kind.JOB, JOB), "status": "processing", "outputs": [{"name": "y"}]},
    }


def test_a_requeue_event_has_the_error() -> None:
    row = HistoryRow(EventPosition(2, 2), "job.queued", AT, None, 1, "echo", "timeout", "too long")
    data = msgspec.json.decode(to_event(JOB, row).body)["data"]
    assert data == {
        "id": ids.encode(ids.Kind.JOB, JOB),
        "status": "queued",
        "attempt": 1,
        "model": "echo",
        "error": {"code": "timeout", "message": "too long"},
    }


def test_a_terminal_event_is_the_webhook_body_byte_for_byte() -> None:
    event = to_event(JOB, HistoryRow(EventPosition(2, 2**31 - 1), "job.failed", AT, b"{ }", None, None, None, None))
    assert (event.body, event.is_end) == (b"{ }", True)


class FakeStore:
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


def build(store: FakeStore) -> Waiters:
    return Waiters(cast("EventStore", store), WaiterPresence(Publisher("amqp://nobody/", "g")), lambda: True)


async def test_a_heartbeat_causes_no_query() -> None:
    store = FakeStore()
    waiters = build(store)
    following = JobHistory(cast("EventStore", store), waiters, 0.001).follow(JOB, Key(ids.new(), ids.new()), START)
    events = [await anext(following) for _ in range(4)]
    await following.aclose()
    assert [event and event.type for event in events] == ["job.queued", None, None, None]
    assert store.queries == 1


async def test_a_stream_ends_when_the_key_is_revoked() -> None:
    store = FakeStore()
    waiters = build(store)
    following = JobHistory(cast("EventStore", store), waiters, 30.0).follow(JOB, Key(ids.new(), ids.new()), START)
    await anext(following)
    quiet = asyncio.create_task(anext(following, None))
    await waiters.wake_revoked()
    with pytest.raises(Problem) as caught:
        await asyncio.wait_for(quiet, 5)
    assert (caught.value.status, waiters.count) == (401, 0)
