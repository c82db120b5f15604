"""What the database cannot save hurts no other job."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from common.job_states import Status
from common.postgres import database as database_module
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from services.dispatcher.results import result_writer
from services.dispatcher.results.result_writer import LARGE, ResultWriter
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.results.store import NotStored, Step
from tests.integration.jobs import claim, look, new_end, submit
from tests.integration.stores import Stores
from tests.support.carrier import make_carrier
from tests.support.recorded_wake_ups import RecordedWakeUps

BIG = b"[" + b"1," * LARGE + b"1]"
STICK = """
CREATE FUNCTION stick() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$
"""
STUCK_OUTPUTS = f"""
CREATE TRIGGER stuck BEFORE INSERT ON {{}} FOR EACH ROW WHEN (octet_length(NEW.outputs) > {LARGE})
EXECUTE FUNCTION stick()
"""


@pytest.fixture
async def hasty(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A pool with short deadlines."""
    monkeypatch.setattr(database_module, "STATEMENT_SECONDS", 2.0)
    monkeypatch.setattr(result_writer, "RETRY_SECONDS", 0.01)
    pool = await Database.connect(database_url, application="tests")
    yield pool
    await pool.close()


@pytest.fixture
def writer(hasty: Database) -> ResultWriter:
    changes = ChangePublisher(Publisher("amqp://127.0.0.1:1/", "tests"))
    runs = RunProgress(hasty, make_carrier(hasty), changes)
    return ResultWriter(hasty, Stores(hasty).results, runs, RecordedWakeUps(), changes)


async def test_much_json_that_cannot_be_saved_delays_no_other_end(
    database: Database, writer: ResultWriter, tenant: UUID
) -> None:
    await database.fetch(STICK)
    await database.fetch(STUCK_OUTPUTS.format("jobs"))
    large = [await claim(database, await submit(database, tenant)) for _ in range(3)]
    small = [await claim(database, await submit(database, tenant)) for _ in range(3)]
    stuck = [asyncio.create_task(writer.end(new_end(job, outputs=BIG))) for job in large]
    async with asyncio.timeout(30):
        for job in small:
            assert await writer.end(new_end(job))
        assert not any(task.done() for task in stuck)
        for error in await asyncio.gather(*stuck, return_exceptions=True):
            assert isinstance(error, NotStored)


async def test_a_response_that_cannot_be_saved_delays_no_other(
    database: Database, writer: ResultWriter, tenant: UUID
) -> None:
    await database.fetch(STICK)
    await database.fetch(STUCK_OUTPUTS.format("job_steps"))
    large, small = [await claim(database, await submit(database, tenant)) for _ in range(2)]
    stuck = asyncio.create_task(writer.add_steps([Step(large.id, large.claim, 1, BIG)]))
    async with asyncio.timeout(30):
        assert await writer.add_steps([Step(small.id, small.claim, 1, b"[]")])
        assert not stuck.done()
        with pytest.raises(NotStored):
            await stuck


async def test_after_a_failed_batch_each_end_is_written_alone(
    database: Database, writer: ResultWriter, tenant: UUID
) -> None:
    jobs = [await claim(database, await submit(database, tenant)) for _ in range(4)]
    async with database.transaction(60.0) as other, asyncio.timeout(45):
        await other.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", jobs[0].id)
        bad, *good = [asyncio.create_task(writer.end(new_end(job))) for job in jobs]
        assert all(await asyncio.gather(*good))
        assert not bad.done()
        with pytest.raises(NotStored):  # the database answers, so it is not an outage
            await bad
    assert (await look(database, jobs[0].id)).status is Status.PROCESSING
