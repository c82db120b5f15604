"""A repeated request is accepted only once the synchronous standby has what the first one added."""

from collections.abc import AsyncIterator

import pytest

from common.errors import Unavailable
from common.postgres import database as module
from common.postgres.database import Database
from common.postgres.migrate import migrate
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.tensors import Datatype, Signature
from deploy.local.servers.postgres import Postgres
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.batches.store import BatchStore
from services.gateway.jobs.idempotency.keys import IdempotencyKeys
from services.gateway.jobs.idempotency.store import IdempotencyStore
from services.gateway.jobs.submit import Submitter
from tests.integration.gateway.batches.test_submit import new_batch
from tests.integration.gateway.jobs.idempotency.test_store import submit
from tests.integration.jobs import add_tenant
from tests.integration.stores import Stores
from tests.integration.submitters import new_submitter
from tests.integration.waiting import until
from tests.support.database.standby import Standby

SECONDS = 1.0  # for a statement that the standby holds up


@pytest.fixture
async def database(primary: Postgres, standby: Standby) -> AsyncIterator[Database]:
    await migrate(primary.url)
    pool = await Database.connect(primary.url, application="tests")
    await until(lambda: primary.query("SELECT sync_state FROM pg_stat_replication") == "sync", "the standby follows")
    yield pool
    await pool.close()


@pytest.fixture
async def hasty(database: Database, primary: Postgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """The same database, for statements that are to fail."""
    with monkeypatch.context() as patch:
        patch.setattr(module, "STATEMENT_SECONDS", SECONDS)
        pool = await Database.connect(primary.url, application="tests")
    yield pool
    await pool.close()


async def test_a_repeated_job_waits_for_the_standby(database: Database, hasty: Database, standby: Standby) -> None:
    tenant = await add_tenant(database, "default")
    flat = [Signature("x", Datatype.FP32, [-1, -1])]
    await Stores(database).models.save_models([(ModelVersion("echo", "1", False, 0, 1, flat, []), True)])
    standby.freeze()
    with pytest.raises(Unavailable):
        await submit(new_test_submitter(hasty), tenant)
    committed = await until_committed(database, "jobs")  # here only
    with pytest.raises(Unavailable):
        await submit(new_test_submitter(hasty), tenant)
    standby.thaw()
    _, replayed = await submit(new_test_submitter(database), tenant)
    assert replayed
    assert has_received(standby, committed)


async def test_a_repeated_batch_waits_for_the_standby(database: Database, hasty: Database, standby: Standby) -> None:
    tenant = await add_tenant(database, "stranger")
    batch, jobs = new_batch(tenant, key="k")
    standby.freeze()
    with pytest.raises(Unavailable):
        await BatchStore(hasty).add(batch, jobs)
    committed = await until_committed(database, "batches")
    with pytest.raises(Unavailable):
        await IdempotencyKeys(IdempotencyStore(hasty)).find(tenant, "k")
    standby.thaw()
    found = await IdempotencyKeys(IdempotencyStore(database)).find(tenant, "k")
    assert found is not None
    assert (found.id, found.is_batch) == (batch.id, True)
    assert has_received(standby, committed)


def new_test_submitter(database: Database) -> Submitter:
    return new_submitter(database, WakeUpPublisher(Publisher("amqp://127.0.0.1:1/", "tests")))


async def until_committed(database: Database, table: str) -> str:
    """Return a position of the log behind a row's commit, once that no longer waits for the standby."""

    async def is_visible() -> bool:
        return len(await database.fetch(f"SELECT FROM {table}")) == 1

    await until(is_visible, f"{table} has a row")
    (record,) = await database.fetch("SELECT pg_current_wal_flush_lsn()::text AS position")
    position: str = record["position"]
    return position


def has_received(standby: Standby, position: str) -> bool:
    """Return whether the standby has the log up to a position. It may show the rows later."""
    return standby.query(f"SELECT pg_last_wal_receive_lsn() >= '{position}'") == "t"
