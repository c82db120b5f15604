"""A model in quarantine is unloaded and loaded, if Triton allows it."""

import asyncio

import pytest

from services.dispatcher.quarantines import reloader as module
from services.dispatcher.quarantines.reloader import AWAY_SECONDS, RETRY_SECONDS, Reloader
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import TritonUnavailable


class FakeTriton(TritonClient):
    """Refuses calls of these kinds as often as given. It has loaded these models; some of them are stalled."""

    def __init__(self, loaded: str = "work", stalled: str = "work", **refused: int) -> None:
        self.refused = refused
        self.loaded, self.stalled = {loaded}, {stalled}
        self.calls: list[str] = []

    async def is_loaded(self, model: str) -> bool:
        return model in self.loaded

    async def unload_stalled(self, model: str) -> bool:
        if model not in self.stalled:
            return False
        await self._note_call("unload", model)
        self.loaded.remove(model)
        return True

    async def load(self, model: str) -> None:
        await self._note_call("load", model)
        self.loaded.add(model)

    async def _note_call(self, kind: str, model: str) -> None:
        await asyncio.sleep(0)
        self.calls.append(f"{kind} {model}")
        self.refused[kind] = self.refused.get(kind, 0) - 1
        if self.refused[kind] >= 0:
            raise TritonUnavailable("not allowed")


@pytest.mark.parametrize(
    ("refused", "calls", "loaded", "unloads"),
    [
        ({}, ["unload work", "load work"], True, 1),
        ({"unload": 1}, ["unload work"], False, 0),
        ({"load": 2}, ["unload work", "load work", "load work", "load work"], True, 1),
        ({"load": 10}, ["unload work", *["load work"] * 10], False, 1),
    ],
)
async def test_a_model_that_was_unloaded_is_loaded_again(
    refused: dict[str, int], calls: list[str], loaded: bool, unloads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOAD_RETRY_SECONDS", 0.0)
    triton = FakeTriton("work", "work", **refused)
    unloaded: list[str] = []
    reloader = Reloader(triton, unloaded.append)
    for _ in range(2):
        reloader.start(["work"])  # which runs already
    await asyncio.gather(*reloader._tasks.values())
    assert (triton.calls, reloader.take_ended(), reloader.running) == (
        calls,
        {"work": None if loaded else RETRY_SECONDS},
        set(),
    )
    assert unloaded == ["work"] * unloads
    assert reloader.take_ended() == {}
    triton.refused.clear()
    again = ["unload work", "load work"] if "work" in triton.loaded else ["load work"]
    reloader.start(["work"])
    await asyncio.gather(*reloader._tasks.values())
    assert triton.calls == [*calls, *again]


@pytest.mark.parametrize(("loaded", "calls"), [("work", []), ("", ["load work"])])
async def test_a_healthy_model_is_never_unloaded(loaded: str, calls: list[str]) -> None:
    """It was loaded since the stall, or a dispatcher died after it had unloaded the model."""
    triton = FakeTriton(loaded=loaded, stalled="")
    reloader = Reloader(triton)
    reloader.start(["work"])
    await asyncio.gather(*reloader._tasks.values())
    assert (triton.calls, reloader.take_ended()) == (calls, {"work": None})


@pytest.mark.parametrize(
    ("triton", "calls"),
    [
        (FakeTriton(loaded=""), []),  # it made room for another one meanwhile
        (FakeTriton(), ["unload work", "load work"]),
        (FakeTriton(load=1), ["unload work", "load work"]),
    ],
    ids=["absent", "stalled", "stalled, and the load fails"],
)
async def test_other_loads_are_left_to_a_planner(triton: FakeTriton, calls: list[str]) -> None:
    reloader = Reloader(triton, is_planned=True)
    reloader.start(["work"])
    await asyncio.gather(*reloader._tasks.values())
    assert (triton.calls, reloader.take_ended()) == (calls, {"work": None})


async def test_a_server_that_hangs_is_tried_again_as_soon_as_it_answers() -> None:
    class HangingTriton(FakeTriton):
        async def is_loaded(self, model: str) -> bool:
            raise TritonUnavailable("Deadline Exceeded", away=True)

    reloader = Reloader(HangingTriton())
    reloader.start(["work"])
    await asyncio.gather(*reloader._tasks.values())
    assert reloader.take_ended() == {"work": AWAY_SECONDS}


async def test_a_load_after_one_that_failed_is_no_reload(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Triton may have been started again meanwhile."""
    monkeypatch.setattr(module, "LOAD_RETRY_SECONDS", 0.0)
    caplog.set_level("INFO")
    for failures, event in ((0, "model.reloaded"), (1, "model.loaded")):
        caplog.clear()
        reloader = Reloader(FakeTriton(load=failures))
        reloader.start(["work"])
        await asyncio.gather(*reloader._tasks.values())
        assert caplog.messages[-1] == event


class RestartedTriton(FakeTriton):
    """Dies during a load. Its next start loads all models."""

    async def load(self, model: str) -> None:
        self.loaded.add(model)
        await self._note_call("load", model)


async def test_a_new_server_is_not_asked_to_load_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOAD_RETRY_SECONDS", 0.0)
    triton = RestartedTriton(load=1)
    reloader = Reloader(triton)
    reloader.start(["work"])
    await asyncio.gather(*reloader._tasks.values())
    assert (triton.calls, reloader.take_ended()) == (["unload work", "load work"], {"work": None})


async def test_a_reload_that_is_interrupted_may_leave_the_model_unloaded() -> None:
    triton = FakeTriton()
    reloader = Reloader(triton)
    reloader.start(["work"])
    await asyncio.sleep(0)
    assert await reloader.stop() == {"work"}
    assert (reloader.take_ended(), reloader.running) == ({}, set())
