"""Events of a job: their ids and what they say."""

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
from common.broker import Publisher
from common.jobs import Status
from services.gateway.attention import Attention
from services.gateway.errors import Problem
from services.gateway.store import Key
from services.gateway.story import Story, read_place, show_place, write
from services.gateway.watch import Watch
from services.gateway.watch_store import START, Place, Stamp, Told, WatchStore

AT = datetime(2026, 1, 1, tzinfo=UTC)
JOB = ids.new()


@given(st.integers(0, 10**18 - 1), st.integers(0, 2**31 - 1))
def test_an_events_id_is_its_place(claim: int, number: int) -> None:
    place = Place(claim, number)
    assert read_place(show_place(place)) == place


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.0", "1.-1", "1.0.0", "1,0", "1.2147483648", "١.٢", " 1.0"])
def test_what_is_no_events_id(text: str) -> None:
    assert read_place(text) is None


def test_a_step_says_what_is_new() -> None:
    told = Told(Place(2, 1), "job.output", AT, b'[{"name":"y"}]', None, None, None, None)
    event = write(JOB, told)
    assert (event.id, event.type, event.is_end) == ("2.1", "job.output", False)
    assert msgspec.json.decode(event.body) == {
        "type": "job.output",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "data": {"id": ids.show(ids.Kind.JOB, JOB), "status": "processing", "outputs": [{"name": "y"}]},
    }


def test_a_way_back_says_why() -> None:
    told = Told(Place(2, 2), "job.queued", AT, None, 1, "echo", "timeout", "too long")
    data = msgspec.json.decode(write(JOB, told).body)["data"]
    assert data == {
        "id": ids.show(ids.Kind.JOB, JOB),
        "status": "queued",
        "attempt": 1,
        "model": "echo",
        "error": {"code": "timeout", "message": "too long"},
    }


def test_an_end_is_the_webhooks_body_byte_for_byte() -> None:
    event = write(JOB, Told(Place(2, 2**31 - 1), "job.failed", AT, b"{ }", None, None, None, None))
    assert (event.body, event.is_end) == (b"{ }", True)


class FakeStore:
    """A job that waits; how often its story was asked for."""

    def __init__(self) -> None:
        self.asked = 0

    async def find_stamps(self, jobs: Sequence[UUID]) -> dict[UUID, Stamp]:
        return dict.fromkeys(jobs, Stamp(Status.QUEUED, 0, 0))

    async def tell_story(self, _job_id: UUID, after: Place, _limit: int, _size: int) -> list[Told]:
        self.asked += 1
        queued = Told(Place(0, 0), "job.queued", AT, None, None, None, None, None)
        return [queued] if after == START else []

    async def find_revoked(self, keys: Collection[UUID]) -> set[UUID]:
        return set(keys)


def build(store: FakeStore) -> Watch:
    return Watch(cast("WatchStore", store), Attention(Publisher("amqp://nobody/", "g")), lambda: True)


async def test_a_heartbeat_asks_nobody() -> None:
    store = FakeStore()
    watch = build(store)
    following = Story(watch.store, watch, 0.001).follow(JOB, Key(ids.new(), ids.new()), START)
    told = [await anext(following) for _ in range(4)]
    await following.aclose()
    assert [event and event.type for event in told] == ["job.queued", None, None, None]
    assert store.asked == 1


async def test_a_story_ends_where_the_key_was_revoked() -> None:
    watch = build(FakeStore())
    following = Story(watch.store, watch, 30.0).follow(JOB, Key(ids.new(), ids.new()), START)
    await anext(following)
    quiet = asyncio.create_task(anext(following, None))
    await watch.drop_revoked()
    with pytest.raises(Problem) as caught:
        await asyncio.wait_for(quiet, 5)
    assert (caught.value.status, watch.count) == (401, 0)
