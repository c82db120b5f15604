"""A run that is locked elsewhere, or takes long to carry on, delays the jobs of no other run."""

import asyncio
from uuid import UUID

import pytest

from common.jobs.end import JobEnd
from common.jobs.run import lock_runs
from common.postgres.database import Database
from services.dispatcher.results import step_ends
from services.dispatcher.results.result_writer import LARGE
from tests.integration.jobs import claim, new_end, submit
from tests.integration.runs import STEPS, Runs, pack
from tests.integration.world import World
from tests.support.result_recorder import make_writer

SECONDS = 10.0  # before the first statement that waits for a lock has failed


@pytest.fixture
async def runs(database: Database, tenant: UUID) -> Runs:
    world = World(database, tenant)
    await world.begin()
    return Runs(world)


async def claim_jobs(runs: Runs, run: UUID, size: int) -> list[JobEnd]:
    """Claim the jobs of a run that wait. Return their ends, with `size` numbers as output."""
    found = [each for each in await runs.database.fetch(STEPS, run) if each["status"] == "queued"]
    made = pack("y", [1.0] * size)
    return [
        new_end(
            await claim(runs.database, each["id"]),
            parent=run,
            step=each["step"],
            step_index=each["step_index"],
            raw_outputs=made,
        )
        for each in found
    ]


@pytest.mark.parametrize("size", [1, LARGE // 4 + 1], ids=["small", "large"])
async def test_locked_runs_delay_no_other_end(runs: Runs, database: Database, tenant: UUID, size: int) -> None:
    """More ends wait for a locked run than there may be transactions at a time."""
    writer = make_writer(database, runs.world.stores.results, runs.world.wake_ups, runs.world.changes)
    many, few = [await runs.begin(*range(count)) for count in (2 * step_ends.RUNS + 1, 3)]
    single = [await runs.begin(1, pipeline="single") for _ in range(2)]
    for run in (many, few):
        await runs.infer(run, "first")
    *delayed, _ = await claim_jobs(runs, many, size)  # without the last one, which would make the next step begin
    *free, _ = await claim_jobs(runs, few, size)
    delayed += await claim_jobs(runs, single[0], 1)
    free += await claim_jobs(runs, single[1], 1)
    free.append(new_end(await claim(database, await submit(database, tenant)), outputs=b"[" + b"1," * size * 4 + b"1]"))
    async with asyncio.timeout(SECONDS):
        async with database.transaction() as connection:
            assert len(await lock_runs(connection, [many, single[0]])) == 2
            waiting = [asyncio.create_task(writer.end(each)) for each in delayed]
            assert all(await asyncio.gather(*(writer.end(each) for each in free)))
            assert not any(task.done() for task in waiting)
        assert all(await asyncio.gather(*waiting))


async def test_only_runs_without_for_each_share_a_transaction(runs: Runs) -> None:
    """The end of the first step of `chain` begins one with `for_each`, which may read the object store."""
    chain, single = await runs.begin(1), await runs.begin(1, pipeline="single")
    ends = [end for run in (chain, single) for end in await claim_jobs(runs, run, 1)]
    taken, recorded, _ = await runs.progress.end_light(ends)
    assert [end.parent for end in taken] == [single]
    assert recorded == {end.event.id for end in taken}
