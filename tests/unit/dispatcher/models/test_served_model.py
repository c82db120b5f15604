"""A model grants slots while it is available, and knows its versions."""

import asyncio

import pytest

from common.job_states import Priority
from common.rabbitmq.wake_ups import MAX_JOBS_PER_MESSAGE
from services.dispatcher.models.breaker import Breaker
from services.dispatcher.models.served_model import BREAKER_OPEN, NO_ROOM, QUEUE_FULL, ServedModel
from services.dispatcher.triton.model_version import ModelVersion
from tests.unit.clock import Clock


def model(version: str, *, instances: int = 1, max_batch_size: int = 0) -> ModelVersion:
    return ModelVersion("echo", version, False, max_batch_size, instances, [], [])


def serve(*versions: ModelVersion, ready: tuple[str, ...] = ()) -> ServedModel:
    found = ServedModel("echo", asyncio.Event())
    found.versions = {each.version: each for each in versions}
    found.ready = set(ready)
    return found


async def run_ready_tasks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_slot_is_granted_only_while_the_model_is_available() -> None:
    echo = serve(model("1"))
    waiting = asyncio.create_task(echo.acquire(Priority.HIGH))
    await run_ready_tasks()
    assert echo.concurrency.used == 0
    echo.available.set()
    await waiting
    assert echo.concurrency.used == 1


async def test_a_slot_granted_after_an_outage_began_is_released() -> None:
    echo = serve(model("1"))
    echo.available.set()
    await echo.acquire(Priority.HIGH)
    waiting = asyncio.create_task(echo.acquire(Priority.HIGH))
    await run_ready_tasks()
    echo.mark_unavailable()
    echo.concurrency.release()
    await run_ready_tasks()
    assert not waiting.done()
    assert echo.concurrency.used == 0
    echo.available.set()
    await waiting
    assert echo.concurrency.used == 1


async def test_an_open_breaker_grants_one_slot_at_a_time_until_the_model_answers() -> None:
    echo = serve(model("1"))
    echo.concurrency.resize(8)
    echo.available.set()
    assert await echo.acquire(Priority.HIGH) is False
    clock = Clock()
    echo.breaker = Breaker("echo", clock)
    echo.breaker.note_crash()
    clock.now += 60
    assert await echo.acquire(Priority.HIGH) is True
    waiting = [asyncio.create_task(echo.acquire(Priority.HIGH)) for _ in range(3)]
    await run_ready_tasks()
    assert (echo.concurrency.used, [task.done() for task in waiting]) == (2, [False] * 3)
    echo.breaker.note_answer()
    assert await asyncio.gather(*waiting) == [False] * 3
    assert echo.concurrency.used == 5


async def test_a_slot_granted_after_the_breaker_opened_is_released() -> None:
    echo = serve(model("1"))
    echo.available.set()
    await echo.acquire(Priority.HIGH)
    waiting = asyncio.create_task(echo.acquire(Priority.HIGH))
    await run_ready_tasks()
    echo.breaker.note_crash()
    echo.concurrency.release()
    await run_ready_tasks()
    assert (waiting.done(), echo.concurrency.used) == (False, 0)
    echo.breaker.note_answer()
    assert await waiting is False


async def test_a_probe_without_a_job_lets_another_one_start_at_once() -> None:
    echo, clock = serve(model("1")), Clock()
    echo.available.set()
    echo.breaker = Breaker("echo", clock)
    echo.breaker.note_crash()
    clock.now += 60
    echo.release(probe=await echo.acquire(Priority.HIGH))
    assert (echo.concurrency.used, echo.breaker.may_start) == (0, True)
    assert await echo.acquire(Priority.HIGH) is True


async def test_a_cancelled_waiter_holds_nothing() -> None:
    echo = serve(model("1"))
    waiting_for_model = asyncio.create_task(echo.acquire(Priority.LOW))
    await run_ready_tasks()
    waiting_for_model.cancel()
    echo.available.set()
    await echo.acquire(Priority.LOW)
    in_queue = asyncio.create_task(echo.acquire(Priority.LOW))
    await run_ready_tasks()
    in_queue.cancel()
    await asyncio.wait([waiting_for_model, in_queue])
    echo.concurrency.release()
    assert echo.concurrency.used == 0


async def test_marking_a_model_unavailable_requests_a_refresh() -> None:
    echo = serve(model("1"))
    echo.available.set()
    echo.mark_unavailable()
    assert not echo.available.is_set()
    assert echo.refresh_requested.is_set()


@pytest.mark.parametrize(
    ("version", "ready", "found"),
    [
        ("2", (), "2"),
        ("7", ("2",), None),
        (None, ("2", "10"), "10"),
        (None, ("2", "9"), "9"),
        (None, (), "10"),
        (None, ("old",), "old"),
    ],
)
def test_the_newest_ready_version_is_the_default(
    version: str | None, ready: tuple[str, ...], found: str | None
) -> None:
    echo = serve(model("2"), model("10"), model("9"), model("old"), ready=ready)
    described = echo.describe(version)
    assert (described.version if described else None) == found


def test_a_model_without_versions_has_no_description() -> None:
    assert serve().describe(None) is None


@pytest.mark.parametrize(("instances", "max_batch_size", "slots"), [(1, 0, 2), (3, 0, 6), (1, 8, 16), (2, 4, 16)])
def test_the_slots_are_twice_what_triton_runs_at_once(instances: int, max_batch_size: int, slots: int) -> None:
    assert serve(model("1", instances=instances, max_batch_size=max_batch_size)).count_slots() == slots


def test_the_version_with_the_most_parallelism_decides_the_slots() -> None:
    assert serve(model("1", instances=4), model("2", max_batch_size=16)).count_slots() == 32


@pytest.mark.parametrize(
    ("instances", "max_batch_size", "prefetch"), [(1, 0, 1), (4, 0, 4), (1, 2, 2), (1, 8, 2), (2, 8, 4), (1, 64, 16)]
)
def test_prefetched_messages_announce_no_more_jobs_than_there_are_slots(
    instances: int, max_batch_size: int, prefetch: int
) -> None:
    found = serve(model("1", instances=instances, max_batch_size=max_batch_size))
    found.concurrency.resize(found.count_slots())
    assert found.count_prefetch() == prefetch
    assert prefetch * min(max_batch_size, MAX_JOBS_PER_MESSAGE) <= found.concurrency.size


def test_what_limits_a_model_besides_its_slots_has_a_name() -> None:
    echo = serve(model("1"))
    echo.concurrency.resize(4)
    reasons = [echo.limited_by]
    echo.lacks_room = True
    reasons.append(echo.limited_by)
    echo.note_queue_full()
    reasons.append(echo.limited_by)
    echo.breaker.note_crash()
    reasons.append(echo.limited_by)
    assert reasons == [None, NO_ROOM, QUEUE_FULL, BREAKER_OPEN]


def test_a_model_whose_queue_was_full_is_limited_until_all_its_slots_are_used_again() -> None:
    echo = serve(model("1"))
    echo.concurrency.resize(4)
    echo.note_queue_full()
    while echo.limited_by is not None:
        assert int(echo.concurrency.limit) < 4
        echo.note_success(0.1)
    assert int(echo.concurrency.limit) == 4
