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
from deploy.local.servers.postgres import DATABASE, Postgres
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.batches.store import BatchStore
from services.gateway.jobs.idempotency.keys import IdempotencyKeys
from services.gateway.jobs.idempotency.store import IdempotencyStore
from tests.integration.gateway.batches.test_submit import new_batch
from tests.integration.gateway.jobs.idempotency.test_store import submit
from tests.integration.jobs import add_tenant
from tests.integration.stores import Stores
from tests.integration.submitters import new_submitter
from tests.integration.waiting import until
from tests.support.database.standby import Standby

SECONDS = 1.0  # for a statement


@pytest.fixture
async def database(primary: Postgres, standby: Standby, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    await migrate(primary.url)
    monkeypatch.setattr(module, "STATEMENT_SECONDS", SECONDS)
    pool = await Database.connect(primary.url, application="tests")
    await until(lambda: primary.query("SELECT sync_state FROM pg_stat_replication") == "sync", "the standby follows")
    yield pool
    await pool.close()


async def test_a_repeated_job_waits_for_the_standby(database: Database, standby: Standby) -> None:
    tenant = await add_tenant(database, "default")
    flat = [Signature("x", Datatype.FP32, [-1, -1])]
    await Stores(database).models.save_models([(ModelVersion("echo", "1", False, 0, 1, flat, []), True)])
    submitter = new_submitter(database, WakeUpPublisher(Publisher("amqp://127.0.0.1:1/", "tests")))
    standby.freeze()
    with pytest.raises(Unavailable):
        await submit(submitter, tenant)
    await until_committed(database, "jobs")  # here only
    with pytest.raises(Unavailable):
        await submit(submitter, tenant)
    standby.thaw()
    row, replayed = await submit(submitter, tenant)
    assert replayed
    assert standby.query("SELECT id FROM jobs", DATABASE) == str(row.id)


async def test_a_repeated_batch_waits_for_the_standby(database: Database, standby: Standby) -> None:
    tenant = await add_tenant(database, "stranger")
    keys, (batch, jobs) = IdempotencyKeys(IdempotencyStore(database)), new_batch(tenant, key="k")
    standby.freeze()
    with pytest.raises(Unavailable):
        await BatchStore(database).add(batch, jobs)
    await until_committed(database, "batches")
    with pytest.raises(Unavailable):
        await keys.find(tenant, "k")
    standby.thaw()
    found = await keys.find(tenant, "k")
    assert found is not None
    assert (found.id, found.is_batch) == (batch.id, True)
    assert standby.query("SELECT id FROM batches", DATABASE) == str(batch.id)


async def until_committed(database: Database, table: str) -> None:
    """Return when a row is visible: its commit no longer waits for the standby."""

    async def is_visible() -> bool:
        return len(await database.fetch(f"SELECT FROM {table}")) == 1

    await until(is_visible, f"{table} has a row")
