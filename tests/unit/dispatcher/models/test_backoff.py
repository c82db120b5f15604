"""A model whose queue in Triton stays full is tried less and less often."""

import asyncio

import pytest

from common.job_states import Priority
from services.dispatcher.models.backoff import FIRST_SECONDS, MAX_SECONDS, Backoff
from services.dispatcher.models.served_model import ServedModel
from tests.unit.clock import Clock


class World:
    """A backoff in a time that only its own waits pass."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.slept: list[float] = []
        self.backoff = Backoff(self.clock, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.now += seconds


async def test_pauses_double_up_to_a_limit() -> None:
    world = World()
    for _ in range(7):
        world.backoff.note_refusal()
        await world.backoff.wait()
        await world.backoff.wait()
    assert world.slept == [FIRST_SECONDS, 0.5, 1.0, 2.0, 4.0, MAX_SECONDS, MAX_SECONDS]


async def test_refusals_during_a_pause_do_not_lengthen_it() -> None:
    world = World()
    for _ in range(3):
        world.backoff.note_refusal()
    await world.backoff.wait()
    assert world.slept == [FIRST_SECONDS]


async def test_a_success_ends_all_pauses() -> None:
    world = World()
    for _ in range(4):
        world.backoff.note_refusal()
        await world.backoff.wait()
    world.backoff.note_refusal()
    world.backoff.note_success()
    await world.backoff.wait()
    world.backoff.note_refusal()
    await world.backoff.wait()
    assert world.slept == [FIRST_SECONDS, 0.5, 1.0, 2.0, FIRST_SECONDS]


@pytest.fixture
def model() -> ServedModel:
    model = ServedModel("echo", asyncio.Event())
    model.available.set()
    return model


async def test_a_model_rests_only_if_even_one_inference_was_refused(model: ServedModel) -> None:
    world = World()
    model.backoff = world.backoff
    model.concurrency.resize(4)
    for _ in range(3):
        model.concurrency.used = 1
        model.note_queue_full()
        model.concurrency.used = 0
        await model.acquire(Priority.NORMAL)
    assert (model.concurrency.limit, world.slept) == (1.0, [FIRST_SECONDS, 0.5])
    model.note_success(0.1)
    assert model.concurrency.limit == 2.0
    await model.acquire(Priority.NORMAL)
    assert len(world.slept) == 2


async def test_a_waiter_that_is_cancelled_during_a_pause_frees_its_slot(model: ServedModel) -> None:
    resting = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        resting.set()
        await asyncio.Event().wait()

    model.backoff = Backoff(Clock(), sleep)
    model.backoff.note_refusal()
    waiter = asyncio.create_task(model.acquire(Priority.NORMAL))
    await resting.wait()
    assert model.concurrency.used == 1
    waiter.cancel()
    await asyncio.wait([waiter])
    assert model.concurrency.used == 0
