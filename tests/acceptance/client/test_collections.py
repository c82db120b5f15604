"""The tenant's batches, events, keys and numbers, through the client."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

import charonia
import pytest
from charonia import Charonia

from deploy.local.stack import Stack
from tests.acceptance.client.conftest import Restart
from tests.support.stacks.key_command import make_key


@pytest.fixture
async def key(stack: Stack) -> str:
    """A key of a new tenant."""
    return await make_key(stack, f"client-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def own_client(stack: Stack, key: str) -> Iterator[Charonia]:
    """A client of a new tenant."""
    with Charonia(stack.url, key) as client:
        yield client


def test_a_batch_is_submitted_once_and_read(own_client: Charonia) -> None:
    names = [f"item {number}" for number in range(3)]
    for _ in range(2):
        batch = own_client.batches.create("echo", [1, {"x": 2}, [3, 4]], custom_ids=names, idempotency_key="the-one")
    assert (batch.total, batch.accepted, batch.errors) == (3, 3, [])
    assert own_client.batches.wait(batch.id, timeout=30).counts["succeeded"] == 3
    lines = list(own_client.batches.results(batch.id))
    assert [line.custom_id for line in lines] == names
    assert [line.job.outputs[0].data for line in lines if line.job and line.job.outputs] == [[2.0], [4.0], [6.0, 8.0]]
    assert len(list(own_client.jobs.list(batch=batch.id))) == 3
    with pytest.raises(charonia.InvalidInput, match="no input 'y'"):
        own_client.batches.create("echo", [{"y": 1}])


def test_the_feed_has_all_events_in_order(own_client: Charonia) -> None:
    assert list(own_client.events.list()) == []
    assert own_client.events.find_end() == "oldest"
    jobs = [own_client.submit("echo", x=number) for number in range(3)]
    for job in jobs:
        job.wait(timeout=30)
    # A list has no events newer than a transaction under way, so the follower waits for them.
    followed = list(islice(own_client.events.follow(types="job.succeeded", after="oldest", timeout=30), 3))
    ends = list(own_client.events.list(types="job.succeeded"))
    assert sorted(end.data.id for end in ends if isinstance(end, charonia.JobEvent)) == sorted(job.id for job in jobs)
    assert list(own_client.events.list(types=["job.succeeded", "job.failed"], after=ends[0].id)) == ends[1:]
    assert list(own_client.events.list(types="job.succeeded", after="oldest")) == ends
    assert [each.id for each in followed] == [each.id for each in ends]
    assert (
        list(islice(own_client.events.follow(types="job.succeeded", after=followed[0].position, timeout=30), 2))
        == (followed[1:])
    )
    assert own_client.events.find_end() == followed[-1].position
    with pytest.raises(charonia.DeadlineExceeded):
        next(own_client.events.follow(timeout=0.1))
    with pytest.raises(charonia.NotFound):
        next(own_client.events.follow(after=f"evt_{26 * '0'}"))


def test_the_feed_goes_on_after_the_gateway_was_killed(breakable: Stack, key: str, restart: Restart) -> None:
    with Charonia(breakable.url, key) as client:
        jobs = [client.submit("work", ms=20 * number) for number in range(30)]
        found = []
        for event in client.events.follow(types="job.succeeded", after="oldest", timeout=120):
            assert isinstance(event, charonia.JobEvent)
            found.append(event.data.id)
            if len(found) == 10:
                starting = restart()
            if len(found) == len(jobs):
                break
        starting.join()
        assert sorted(found) == sorted(job.id for job in jobs)


def test_keys_are_made_and_revoked(own_client: Charonia, stack: Stack) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    made = own_client.keys.create("reports", ["read"], models=["echo"], rate_limit=5, expires_at=later)
    assert made.key is not None
    assert [each.id for each in own_client.keys.list()][-1] == made.id
    assert own_client.keys.get(made.id).key is None
    with Charonia(stack.url, made.key) as reader:
        assert [each.name for each in reader.models.list()] == ["echo"]
        with pytest.raises(charonia.Forbidden):
            reader.submit("echo", x=1)
        own_client.keys.revoke(made.id)
        with pytest.raises(charonia.Unauthorized):
            reader.models.get("echo")
    assert [each.action for each in own_client.audit_log()][:2] == ["key.revoked", "key.created"]


def test_the_numbers_count_the_jobs(own_client: Charonia) -> None:
    job = own_client.run("echo", x=1).job
    (queue,) = own_client.stats().items
    assert (queue.model, queue.priority, queue.waiting, queue.last_5_minutes.ended) == ("echo", "normal", 0, 1)
    assert sum(minute.ended for minute in own_client.stats_by_minute().items) == 1
    found = own_client.jobs.get(job.id)
    assert found.trace().spans[0].name == "job echo"
    assert found.waiting_for is None
    assert list(own_client.usage(model="unknown")) == []
    model = own_client.models.get("echo")
    assert model.slots
    assert model.recent is not None
    assert model.recent.jobs == 1
