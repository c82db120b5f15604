"""The sweep of runs: no run that fails, or takes long, holds up others."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from common.errors import StoreUnavailable
from common.jobs.run import find_due_runs
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUp
from common.runs.progress import AGAIN_SECONDS
from services.dispatcher.maintenance import run_sweeper
from services.dispatcher.maintenance.run_sweeper import RunSweeper
from services.dispatcher.results.run_progress import RunProgress
from tests.integration.runs import Runs
from tests.integration.world import World
from tests.support.carrier import make_carrier

SECONDS = 30.0


class Progress(RunProgress):
    """Raises for some runs, and says which deadlines it has kept."""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs.database, make_carrier(runs.database), runs.world.changes)
        self.errors: dict[UUID, Exception] = {}
        self.hangs = False
        self.hanging, self.ended = asyncio.Event(), asyncio.Event()

    async def carry_due(self, run_id: UUID) -> Sequence[WakeUp]:
        if self.hangs:
            self.hanging.set()
            await asyncio.Event().wait()
        if run_id in self.errors:
            raise self.errors[run_id]
        return await super().carry_due(run_id)

    async def end_overdue(self, run_id: UUID) -> Sequence[WakeUp]:
        if run_id in self.errors:
            raise self.errors[run_id]
        wake_ups = await super().end_overdue(run_id)
        self.ended.set()
        return wake_ups


@pytest.fixture
async def runs(database: Database, tenant: UUID) -> Runs:
    world = World(database, tenant)
    await world.begin()
    return Runs(world)


@pytest.fixture
def progress(runs: Runs) -> Progress:
    return Progress(runs)


@pytest.fixture
def sweeper(runs: Runs, progress: Progress) -> RunSweeper:
    return RunSweeper(runs.database, progress, runs.world.wake_ups, interval=0.01)


async def test_runs_that_fail_are_tried_again_later_and_hide_no_others(
    runs: Runs, progress: Progress, sweeper: RunSweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_sweeper, "BATCH", 3)
    *failing, good = [await runs.add(1) for _ in range(4)]
    progress.errors = dict(zip(failing, (StoreUnavailable(), ValueError(), AssertionError()), strict=True))
    assert await sweeper.carry_due()
    assert await find_due_runs(runs.database, 10) == [good]
    assert not await sweeper.carry_due()
    assert (await runs.state(good))["status"] == "processing"
    progress.errors.clear()
    await runs.world.pass_time(AGAIN_SECONDS)
    await sweeper.carry_due()
    assert {(await runs.state(run))["status"] for run in failing} == {"processing"}


async def test_a_deadline_that_cannot_be_kept_holds_up_no_other(
    runs: Runs, progress: Progress, sweeper: RunSweeper
) -> None:
    bad, good = await runs.begin(1), await runs.begin(1)
    progress.errors = {bad: ValueError()}
    await runs.world.pass_time(61)
    await sweeper.end_overdue()
    assert [(await runs.state(run))["status"] for run in (bad, good)] == ["processing", "failed"]


@pytest.mark.parametrize("count", [1, 2 * run_sweeper.RUNS])
async def test_deadlines_do_not_wait_for_runs_that_begin(
    runs: Runs, progress: Progress, sweeper: RunSweeper, count: int
) -> None:
    overdue = await runs.begin(1)
    await runs.world.pass_time(61)
    for _ in range(count):
        await runs.add(1)
    progress.hangs = True
    sweeping = asyncio.create_task(sweeper.run())
    try:
        async with asyncio.timeout(SECONDS):
            await progress.hanging.wait()
            await progress.ended.wait()
    finally:
        sweeping.cancel()
        await asyncio.wait([sweeping])
    assert (await runs.state(overdue))["status"] == "failed"


async def test_a_run_that_is_canceled_while_it_is_due_is_left_alone(runs: Runs, sweeper: RunSweeper) -> None:
    run = await runs.add(1)
    await runs.world.cancel(run)
    assert await runs.progress.carry_due(run) == []
    assert not await sweeper.carry_due()
    assert (await runs.state(run))["status"] == "canceled"
