"""A model's gate, slots and versions."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from common.jobs import Failure, Priority
from common.outbox import JOBS_TOGETHER
from services.dispatcher.catalogue import Catalogue, Runnable
from services.dispatcher.store import Store
from services.dispatcher.triton import Model, Triton, TritonDown
from services.dispatcher.trust import Trust


def model(version: str, *, instances: int = 1, max_batch_size: int = 0) -> Model:
    return Model("echo", version, False, max_batch_size, instances, [], [])


def runnable(*versions: Model, ready: tuple[str, ...] = ()) -> Runnable:
    found = Runnable("echo", asyncio.Event())
    found.versions = {each.version: each for each in versions}
    found.ready = set(ready)
    return found


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_slot_is_given_only_while_the_gate_is_open() -> None:
    echo = runnable(model("1"))
    waiting = asyncio.create_task(echo.acquire(Priority.HIGH))
    await settle()
    assert echo.slots.used == 0
    echo.gate.set()
    await waiting
    assert echo.slots.used == 1


async def test_a_slot_that_comes_after_the_gate_has_closed_is_given_back() -> None:
    echo = runnable(model("1"))
    echo.gate.set()
    await echo.acquire(Priority.HIGH)
    waiting = asyncio.create_task(echo.acquire(Priority.HIGH))
    await settle()
    echo.suspect()
    echo.slots.release()
    await settle()
    assert not waiting.done()
    assert echo.slots.used == 0
    echo.gate.set()
    await waiting
    assert echo.slots.used == 1


async def test_a_waiter_cancelled_at_the_gate_or_in_the_queue_holds_nothing() -> None:
    echo = runnable(model("1"))
    at_gate = asyncio.create_task(echo.acquire(Priority.LOW))
    await settle()
    at_gate.cancel()
    echo.gate.set()
    await echo.acquire(Priority.LOW)
    in_queue = asyncio.create_task(echo.acquire(Priority.LOW))
    await settle()
    in_queue.cancel()
    await asyncio.wait([at_gate, in_queue])
    echo.slots.release()
    assert echo.slots.used == 0


async def test_suspicion_closes_the_gate_and_raises_the_alarm() -> None:
    echo = runnable(model("1"))
    echo.gate.set()
    echo.suspect()
    assert not echo.gate.is_set()
    assert echo.alarm.is_set()


@pytest.mark.parametrize(
    ("asked", "ready", "found"),
    [
        ("2", (), "2"),
        ("7", ("2",), None),
        (None, ("2", "10"), "10"),
        (None, ("2", "9"), "9"),
        (None, (), "10"),
        (None, ("old",), "old"),
    ],
)
def test_the_newest_ready_version_answers_where_none_is_asked_for(
    asked: str | None, ready: tuple[str, ...], found: str | None
) -> None:
    echo = runnable(model("2"), model("10"), model("9"), model("old"), ready=ready)
    described = echo.describe(asked)
    assert (described.version if described else None) == found


def test_a_model_never_seen_has_no_description() -> None:
    assert runnable().describe(None) is None


@pytest.mark.parametrize(("instances", "max_batch_size", "slots"), [(1, 0, 2), (3, 0, 6), (1, 8, 16), (2, 4, 16)])
def test_slots_are_twice_what_triton_runs_at_once(instances: int, max_batch_size: int, slots: int) -> None:
    assert runnable(model("1", instances=instances, max_batch_size=max_batch_size)).count_slots() == slots


def test_the_greediest_version_decides_about_slots() -> None:
    assert runnable(model("1", instances=4), model("2", max_batch_size=16)).count_slots() == 32


class FakeTriton:
    """Serves one version, which may be reloaded with another declaration without ever being away."""

    def __init__(self, served: Model) -> None:
        self.served = served
        self.asked = 0
        self.down = False
        self.trust = Trust()

    async def list_ready(self) -> set[tuple[str, str]]:
        if self.down:
            raise TritonDown(Failure("triton_unavailable", "it is down", True))
        return {(self.served.name, self.served.version)}

    async def describe(self, _name: str, _version: str) -> Model:
        self.asked += 1
        return self.served


class FakeStore:
    def __init__(self) -> None:
        self.saved: list[tuple[Model, bool]] = []
        self.retired: list[float] = []

    async def retire_models(self, grace: float) -> list[tuple[str, str]]:
        self.retired.append(grace)
        return []

    async def save_models(self, models: Sequence[tuple[Model, bool]]) -> None:
        self.saved = [*models]


async def test_a_model_reloaded_in_place_is_described_again_when_it_is_doubted() -> None:
    triton, store = FakeTriton(model("1", max_batch_size=64)), FakeStore()

    async def adopt(_model: Runnable) -> None:
        pass

    catalogue = Catalogue(cast("Triton", triton), cast("Store", store), adopt, interval=1.0, slots=0, grace=60.0)
    assert await catalogue.look()
    assert await catalogue.look()
    assert (triton.asked, catalogue.models["echo"].slots.size) == (1, 128)

    triton.served = model("1", max_batch_size=8)
    catalogue.models["echo"].doubt()
    assert catalogue.alarm.is_set()
    assert await catalogue.look()
    assert (catalogue.models["echo"].describe(None), catalogue.models["echo"].slots.size) == (triton.served, 16)
    assert store.saved == [(triton.served, True)]


@pytest.mark.parametrize(("configured", "size", "most"), [(0, 16, 32), (3, 3, 3), (64, 64, 64)])
async def test_slots_that_are_configured_are_no_more_however_quick_a_model_is(
    configured: int, size: int, most: int
) -> None:
    async def adopt(_model: Runnable) -> None:
        pass

    triton, store = FakeTriton(model("1", max_batch_size=8)), FakeStore()
    catalogue = Catalogue(
        cast("Triton", triton), cast("Store", store), adopt, interval=1.0, slots=configured, grace=60.0
    )
    assert await catalogue.look()
    slots = catalogue.models["echo"].slots
    assert (slots.size, slots.most) == (size, most)


async def test_no_model_is_missed_while_triton_is_down() -> None:
    triton, store = FakeTriton(model("1")), FakeStore()

    async def adopt(_model: Runnable) -> None:
        pass

    catalogue = Catalogue(cast("Triton", triton), cast("Store", store), adopt, interval=1.0, slots=0, grace=60.0)
    await catalogue.look()
    assert store.retired == [60.0]
    triton.down = True
    await catalogue.look()
    assert (store.saved, store.retired) == ([(triton.served, False)], [60.0])
    triton.down = False
    await catalogue.look()
    assert store.retired == [60.0, 60.0]


async def test_triton_is_looked_at_more_often_while_a_model_is_not_believed() -> None:
    triton = FakeTriton(model("1"))

    async def adopt(_model: Runnable) -> None:
        pass

    catalogue = Catalogue(cast("Triton", triton), cast("Store", FakeStore()), adopt, interval=1.0, slots=0, grace=60.0)
    assert await catalogue.look()
    triton.trust.lose("echo")
    assert not await catalogue.look()


@pytest.mark.parametrize(("patterns", "runs"), [(("*",), True), (("llm-*", "ec*"), True), (("llm-*", "ECHO"), False)])
async def test_only_models_that_fit_a_pattern_are_run(patterns: tuple[str, ...], runs: bool) -> None:
    store, adopted = FakeStore(), list[str]()

    async def adopt(found: Runnable) -> None:
        adopted.append(found.name)

    triton = cast("Triton", FakeTriton(model("1")))
    catalogue = Catalogue(triton, cast("Store", store), adopt, interval=1.0, slots=0, grace=60.0, patterns=patterns)
    assert await catalogue.look()
    assert (adopted, len(store.saved)) == ((["echo"], 1) if runs else ([], 0))


@pytest.mark.parametrize(
    ("instances", "max_batch_size", "held"), [(1, 0, 1), (4, 0, 4), (1, 2, 2), (1, 8, 2), (2, 8, 4), (1, 64, 16)]
)
def test_what_is_held_rings_for_no_more_jobs_than_there_are_slots(
    instances: int, max_batch_size: int, held: int
) -> None:
    found = runnable(model("1", instances=instances, max_batch_size=max_batch_size))
    found.slots.resize(found.count_slots())
    assert found.count_held() == held
    assert held * min(max_batch_size, JOBS_TOGETHER) <= found.slots.size
