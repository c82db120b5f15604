"""A gateway with a model that speaks."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from common.object_store.store import ObjectStore
from common.postgres.database import Database
from tests.integration.gateway.openai.batches.gateway import MODEL, Gateway
from tests.integration.stores import Stores
from tests.integration.world import World


@pytest.fixture
async def world(database: Database, tenant: UUID) -> World:
    await Stores(database).models.save_models([(MODEL, True)])
    return World(database, tenant)


@pytest.fixture
async def objects(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    store = ObjectStore(f"file://{tmp_path}")
    yield store
    store.close()


@pytest.fixture
def gateway(world: World, objects: ObjectStore) -> Gateway:
    return Gateway(world, objects)
