"""Loads and unloads run beside the planner, and what a load takes is measured."""

import asyncio

import pytest

from services.dispatcher.residency import loads as module
from services.dispatcher.residency.loads import LONGEST_UNLOAD, Loaded, Loads
from services.dispatcher.residency.memory import Meter
from services.dispatcher.triton.client import LOAD_SECONDS
from services.dispatcher.triton.errors import TritonUnavailable
from services.dispatcher.triton.model_control import ModelControl


class FakeControl(ModelControl):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.error: str | None = None
        self.away = False
        self.declares = False
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def load(self, model: str) -> None:
        await self._call(f"load {model}")

    async def unload(self, model: str) -> None:
        await self._call(f"unload {model}")

    async def has_declared_memory(self, model: str) -> bool:
        return self.declares

    async def _call(self, call: str) -> None:
        self.calls.append(call)
        await self.go_on.wait()
        if self.error is not None:
            raise TritonUnavailable(self.error, away=self.away)


class FakeMeter(Meter):
    """Returns one reading after the other."""

    def __init__(self, *readings: int | None) -> None:
        super().__init__("http://triton:8002/metrics")
        self.left = [*readings]

    async def read(self) -> int | None:
        return self.left.pop(0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)


async def load(control: FakeControl, meter: Meter, *, measure: bool = True) -> Loaded:
    changed = asyncio.Event()
    loads = Loads(control, meter, changed)
    control.go_on.clear()
    loads.load("m", measure=measure)
    await asyncio.sleep(0)
    control.go_on.set()
    assert loads.take_ended() == []  # the planner looks meanwhile
    async with asyncio.timeout(5):
        await changed.wait()
    (ended,) = loads.take_ended()
    assert loads.take_ended() == []
    assert loads.loading is None
    return ended


@pytest.mark.parametrize(
    ("readings", "growth"), [((100, 350), 250), ((None,), None), ((100, None), None), ((100, 90), None)]
)
async def test_the_growth_of_triton_is_that_of_the_model(readings: tuple[int | None, ...], growth: int | None) -> None:
    meter = FakeMeter(*readings)
    ended = await load(FakeControl(), meter)
    assert (ended.growth, ended.error, meter.left) == (growth, None, [])


async def test_it_is_known_while_a_load_is_measured() -> None:
    control, changed = FakeControl(), asyncio.Event()
    control.go_on.clear()
    for measure in (True, False):
        loads = Loads(control, FakeMeter(1, 2), changed)
        loads.load("m", measure=measure)
        assert (loads.loading, loads.is_measuring) == ("m", measure)
        await loads.stop()


async def test_nothing_is_measured_that_is_known() -> None:
    control = FakeControl()
    assert (await load(control, FakeMeter(), measure=False)).growth is None
    control.declares = True
    assert (await load(control, FakeMeter(100))).growth is None
    assert (await load(control, Meter(""))).growth is None


@pytest.mark.parametrize(
    ("error", "shown", "lacked"),
    [
        (
            "failed to load 'm': Internal: /models/m/1/model.py: torn",
            "failed to load 'm': Internal: …/model.py: torn",
            False,
        ),
        ("CUDA error: out of memory", "CUDA error: out of memory", True),
        (
            "RuntimeError: DefaultCPUAllocator: not enough memory",
            "RuntimeError: DefaultCPUAllocator: not enough memory",
            True,
        ),
    ],
)
async def test_a_load_that_fails_says_why_without_folders(error: str, shown: str, lacked: bool) -> None:
    control = FakeControl()
    control.error = error
    ended = await load(control, Meter(""))
    assert (ended.error, ended.lacked_memory) == (shown, lacked)


@pytest.mark.parametrize(
    ("away", "seconds", "is_outage"), [(True, LOAD_SECONDS - 1, True), (True, LOAD_SECONDS, False), (False, 1.0, False)]
)
async def test_a_load_that_fails_because_triton_went_away_is_not_the_models_fault(
    away: bool, seconds: float, is_outage: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, control = 100.0, FakeControl()
    loads = Loads(control, Meter(""), asyncio.Event())
    control.error, control.away = "Deadline Exceeded", away
    control.go_on.clear()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    loads.load("m", measure=False)
    await asyncio.sleep(0)  # it has begun
    now += seconds
    control.go_on.set()
    assert loads._load is not None
    await loads._load
    (ended,) = loads.take_ended()
    assert (ended.seconds, ended.is_outage) == (seconds, is_outage)


async def test_an_unload_is_asked_for_once_and_not_again_right_after_a_refusal() -> None:
    control, changed = FakeControl(), asyncio.Event()
    loads = Loads(control, Meter(""), changed)
    control.go_on.clear()
    loads.unload("m")
    loads.unload("m")
    assert loads.unloading == {"m"}
    control.error = "explicit model load / unload is not allowed"
    control.go_on.set()
    async with asyncio.timeout(5):
        await changed.wait()
    loads.unload("m")
    assert (control.calls, loads.unloading) == (["unload m"], set())


async def test_what_an_unload_takes_is_learned_until_triton_no_longer_has_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, loads = 100.0, Loads(FakeControl(), Meter(""), asyncio.Event())
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    learned = []
    for seconds in (2.0, 1.0, LONGEST_UNLOAD):  # the last one waited for an inference
        loads.unload("m")
        await asyncio.gather(*loads._unloads.values())
        now += seconds
        loads.note_absent("m")
        loads.note_absent("m")
        learned.append(loads.unload_seconds)
    assert learned == [2.0, 1.5, 1.5]


async def test_a_stop_waits_for_no_load() -> None:
    control = FakeControl()
    loads = Loads(control, Meter(""), asyncio.Event())
    control.go_on.clear()
    loads.load("m", measure=False)
    loads.unload("n")
    async with asyncio.timeout(5):
        await loads.stop()
    assert loads.take_ended() == []
