"""Large outputs are saved before the end of their job. What cannot be saved hurts no other job."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from common.jobs import Status
from common.postgres import database as database_module
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from services.dispatcher.results import result_writer
from services.dispatcher.results.result_writer import LARGE, ResultWriter
from services.dispatcher.results.store import NotStored, OutputsNotStored, Step
from services.gateway.jobs.store import JobStore
from tests.integration.jobs import LEASE, claim, look, make_due, new_end, new_requeue, submit, trace
from tests.integration.recorded_wake_ups import RecordedWakeUps
from tests.integration.stores import Stores
from tests.integration.waiting import until_blocked
from tests.integration.world import World

BIG = b"[" + b"1," * LARGE + b"1]"
STICK = """
CREATE FUNCTION stick() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$
"""
STUCK_OUTPUTS = f"""
CREATE TRIGGER stuck BEFORE INSERT ON {{}} FOR EACH ROW WHEN (octet_length(NEW.outputs) > {LARGE})
EXECUTE FUNCTION stick()
"""


@pytest.fixture
def stores(database: Database) -> Stores:
    return Stores(database)


@pytest.fixture
async def hasty(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A pool with short deadlines."""
    monkeypatch.setattr(database_module, "STATEMENT_SECONDS", 0.5)
    monkeypatch.setattr(result_writer, "RETRY_SECONDS", 0.01)
    pool = await Database.connect(database_url, application="tests")
    yield pool
    await pool.close()


@pytest.fixture
def writer(hasty: Database) -> ResultWriter:
    changes = ChangePublisher(Publisher("amqp://127.0.0.1:1/", "tests"))
    return ResultWriter(Stores(hasty).results, RecordedWakeUps(), changes)


async def test_large_outputs_are_seen_once_the_job_has_succeeded(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    job = await claim(database, await submit(database, tenant))
    await stores.results.save_outputs([new_end(job, outputs=BIG)])
    assert await JobStore(database).read_outputs(job.row.id) is None
    assert await stores.results.end_jobs([new_end(job, outputs=None)])
    assert await JobStore(database).read_outputs(job.row.id) == BIG


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
async def test_saved_outputs_are_dropped_unless_the_job_succeeds(
    database: Database, stores: Stores, tenant: UUID, status: Status
) -> None:
    job = await claim(database, await submit(database, tenant))
    await stores.results.save_outputs([new_end(job, outputs=BIG)])
    await database.fetch("UPDATE jobs SET status = 'canceling' WHERE id = $1", job.row.id)
    assert await stores.results.end_jobs([new_end(job, status)])
    assert (await trace(database, job.row.id)).outputs == []


async def test_saved_outputs_are_dropped_if_the_job_is_canceled_in_the_queue(database: Database, tenant: UUID) -> None:
    """Its dispatcher stopped between the save and the end."""
    world = World(database, tenant)
    job = await claim(database, await submit(database, tenant))
    await world.stores.results.save_outputs([new_end(job, outputs=BIG)])
    await world.stores.results.requeue_jobs([new_requeue(job, given_back=True)])
    assert await world.cancel(job.row.id) is Status.CANCELED
    assert (await trace(database, job.row.id)).outputs == []


async def test_an_old_claim_saves_nothing(database: Database, stores: Stores, tenant: UUID) -> None:
    old = await claim(database, await submit(database, tenant))
    await stores.results.requeue_jobs([new_requeue(old)])
    await make_due(database, old.row.id)
    new = await claim(database, old.row.id)
    await stores.results.save_outputs([new_end(new, outputs=b"[2]")])
    await stores.results.save_outputs([new_end(old, outputs=b"[1]")])
    assert (await trace(database, old.row.id)).outputs == [b"[2]"]


async def test_a_late_save_of_an_old_claim_replaces_nothing(database: Database, stores: Stores, tenant: UUID) -> None:
    old = await claim(database, await submit(database, tenant))
    async with database.transaction() as newer:
        await newer.execute("UPDATE jobs SET claim = claim + 1 WHERE id = $1", old.row.id)
        await newer.execute(
            "INSERT INTO job_outputs (job_id, claim, outputs) VALUES ($1, $2, '[2]')", old.row.id, old.claim + 1
        )
        late = asyncio.create_task(stores.results.save_outputs([new_end(old, outputs=b"[1]")]))
        await until_blocked(database)
    await late
    assert (await trace(database, old.row.id)).outputs == [b"[2]"]


async def test_outputs_that_cannot_be_saved_delay_no_end_and_no_heartbeat(
    database: Database, hasty: Database, writer: ResultWriter, tenant: UUID
) -> None:
    await database.fetch(STICK)
    await database.fetch(STUCK_OUTPUTS.format("job_outputs"))
    large = [await claim(database, await submit(database, tenant)) for _ in range(3)]
    small = [await claim(database, await submit(database, tenant)) for _ in range(3)]
    stuck = [asyncio.create_task(writer.end(new_end(job, outputs=BIG))) for job in large]
    async with asyncio.timeout(10):
        for job in small:
            assert await writer.end(new_end(job))
        keys = [(job.row.id, job.claim) for job in large]
        assert len(await Stores(hasty).claims.renew_leases(keys, LEASE)) == 3
        assert not any(task.done() for task in stuck)
        for error in await asyncio.gather(*stuck, return_exceptions=True):
            assert isinstance(error, OutputsNotStored)


async def test_a_response_that_cannot_be_saved_delays_no_other(
    database: Database, writer: ResultWriter, tenant: UUID
) -> None:
    await database.fetch(STICK)
    await database.fetch(STUCK_OUTPUTS.format("job_steps"))
    large, small = [await claim(database, await submit(database, tenant)) for _ in range(2)]
    stuck = asyncio.create_task(writer.add_steps([Step(large.row.id, large.claim, 1, BIG)]))
    async with asyncio.timeout(10):
        assert await writer.add_steps([Step(small.row.id, small.claim, 1, b"[]")])
        assert not stuck.done()
        with pytest.raises(OutputsNotStored):
            await stuck


async def test_after_a_failed_batch_each_end_is_written_alone(
    database: Database, writer: ResultWriter, tenant: UUID
) -> None:
    jobs = [await claim(database, await submit(database, tenant)) for _ in range(4)]
    async with database.transaction() as other, asyncio.timeout(15):
        await other.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", jobs[0].row.id)
        bad, *good = [asyncio.create_task(writer.end(new_end(job))) for job in jobs]
        assert all(await asyncio.gather(*good))
        assert not bad.done()
        with pytest.raises(NotStored):  # the database answers, so it is not an outage
            await bad
    assert (await look(database, jobs[0].row.id)).status is Status.PROCESSING


async def test_large_responses_are_added_once_and_only_under_their_claim(
    database: Database, stores: Stores, tenant: UUID
) -> None:
    old = await claim(database, await submit(database, tenant))
    await stores.results.requeue_jobs([new_requeue(old)])
    await make_due(database, old.row.id)
    new = await claim(database, old.row.id)
    steps = [Step(job.row.id, job.claim, number, BIG) for job in (old, new) for number in (1, 2)]
    for _ in range(2):
        await stores.results.add_large_steps(steps)
    found = await database.fetch("SELECT claim, number, outputs FROM job_steps WHERE type = 'job.output' ORDER BY 1, 2")
    assert [tuple(row) for row in found] == [(new.claim, 1, BIG), (new.claim, 2, BIG)]
