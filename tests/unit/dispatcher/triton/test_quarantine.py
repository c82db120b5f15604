"""A stalled model's answers are rejected until its process is a new one."""

import asyncio

import pytest

from services.dispatcher.triton import quarantine as module
from services.dispatcher.triton.quarantine import Quarantine
from tests.unit.clock import LATE


@pytest.fixture
async def quarantine() -> Quarantine:
    found = Quarantine()
    found.describe("work", python=True, steps=[])
    found.describe("net", python=False, steps=[])
    found.describe("chain", python=False, steps=["work", "net"])
    found.describe("outer", python=False, steps=["chain", "unheard of"])
    return found


def accepts_now(quarantine: Quarantine, model: str) -> bool:
    return quarantine.accepts(model, quarantine.epoch(model))


async def test_an_answer_to_a_request_from_before_the_stall_is_rejected_for_ever(quarantine: Quarantine) -> None:
    before = quarantine.epoch("work")
    assert quarantine.accepts("work", before)
    quarantine.add("work")
    assert not accepts_now(quarantine, "work")
    quarantine.release_missing({"net"})
    assert (accepts_now(quarantine, "work"), quarantine.accepts("work", before)) == (True, False)
    quarantine.add("work")  # the new process
    assert not accepts_now(quarantine, "work")


async def test_a_model_that_stays_ready_stays_in_quarantine(quarantine: Quarantine) -> None:
    quarantine.add("work")
    for count in (7, 7, 9):
        quarantine.release_missing({"work"})
        quarantine.note_executions("work", count)
    assert quarantine.holds("work")


@pytest.mark.parametrize("counts", [(7, 6), (0,)])
async def test_a_lower_count_of_executions_shows_a_new_process(quarantine: Quarantine, counts: tuple[int, ...]) -> None:
    quarantine.add("work")
    for count in counts:
        assert quarantine.holds("work")
        quarantine.note_executions("work", count)
    assert accepts_now(quarantine, "work")
    quarantine.add("work")
    quarantine.note_executions("work", 3)  # the count of an earlier quarantine does not matter
    assert quarantine.holds("work")


async def test_a_count_that_another_dispatcher_knows_shows_a_new_process(quarantine: Quarantine) -> None:
    quarantine.hold("work", "shared", 7)
    assert quarantine.seen == set()
    quarantine.note_executions("work", 3)
    assert accepts_now(quarantine, "work")
    quarantine.add("work")
    assert quarantine.seen == {"work"}


async def test_only_a_model_that_is_not_loaded_still_has_to_be(quarantine: Quarantine) -> None:
    quarantine.add_all()
    quarantine.release_missing({"work"})
    assert quarantine.unloaded == {"unheard of"}
    quarantine.add("unheard of")
    quarantine.release_all()
    assert (quarantine.models, quarantine.seen, quarantine.unloaded) == (set(), set(), set())


async def test_a_stalled_step_holds_every_ensemble_around_it(quarantine: Quarantine) -> None:
    before = quarantine.epoch("outer")
    quarantine.add("work")
    assert [quarantine.holds(model) for model in ("work", "chain", "outer", "net")] == [True, True, True, False]
    quarantine.release("work")
    assert (accepts_now(quarantine, "outer"), quarantine.accepts("outer", before)) == (True, False)


async def test_a_stall_in_an_ensemble_quarantines_its_steps_that_may_be_in_python(quarantine: Quarantine) -> None:
    quarantine.add("outer")
    assert quarantine.models == {"work", "unheard of"}


async def test_a_stalled_server_quarantines_its_python_models(quarantine: Quarantine) -> None:
    quarantine.add_all()
    assert quarantine.models == {"work", "unheard of"}


async def test_a_request_that_runs_at_the_stall_is_interrupted_soon(
    quarantine: Quarantine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTERRUPT_SECONDS", 0.0)
    running = asyncio.Event()

    async def run(model: str) -> None:
        async with asyncio.timeout(60) as deadline:
            with quarantine.interrupt(model, deadline):
                running.set()
                await asyncio.Event().wait()

    chain, net = asyncio.create_task(run("chain")), asyncio.create_task(run("net"))
    await running.wait()
    await asyncio.sleep(0)
    quarantine.add("work")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(chain, LATE)
    assert not net.done()
    net.cancel()
