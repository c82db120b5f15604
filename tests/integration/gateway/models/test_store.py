"""The catalogue in the database."""

from uuid import UUID

import pytest

from common.jobs import Priority
from common.postgres.database import Database
from common.tensors import Datatype, Signature
from services.dispatcher.triton.client import ModelVersion
from services.gateway.models.store import ModelStore
from tests.integration.jobs import claim, submit
from tests.integration.stores import Stores


@pytest.fixture
def store(database: Database) -> ModelStore:
    return ModelStore(database)


async def test_the_dispatchers_catalogue_is_what_the_gateway_reads(database: Database, store: ModelStore) -> None:
    inputs = [Signature("x", Datatype.FP32, [-1, 3]), Signature("hint", Datatype.BYTES, [1], optional=True)]
    outputs = [Signature("y", Datatype.BF16, [-1])]
    model = ModelVersion("ocr", "2", True, 8, 3, inputs, outputs)
    dispatcher = Stores(database).models
    await dispatcher.save_models([(model, True)])
    (row,) = await store.list_models()
    assert (row.name, row.version, row.ready, row.decoupled, row.max_batch_size) == ("ocr", "2", True, True, 8)
    assert (row.inputs, row.outputs) == (inputs, outputs)
    await dispatcher.save_models([(model, False)])
    assert [each.ready for each in await store.list_models()] == [False]


async def test_a_model_that_no_dispatcher_refreshes_is_not_ready(database: Database, store: ModelStore) -> None:
    await Stores(database).models.save_models([(ModelVersion("ocr", "1", False, 0, 1, [], []), True)])
    await database.fetch("UPDATE served_models SET updated_at = now() - interval '31 seconds'")
    assert [row.ready for row in await store.list_models()] == [False]


async def test_waiting_jobs_are_counted_by_model_and_priority(
    database: Database, store: ModelStore, tenant: UUID
) -> None:
    await submit(database, tenant)
    await submit(database, tenant)
    await submit(database, tenant, priority=Priority.LOW)
    await claim(database, await submit(database, tenant))
    assert await store.count_queued() == {("echo", "normal"): 2, ("echo", "low"): 1}
