"""The past of a tenant with one subscription."""

from uuid import UUID

import pytest

from common.postgres.database import Database
from tests.integration.dispatcher.maintenance.history.past import Past


@pytest.fixture
async def past(database: Database, tenant: UUID) -> Past:
    made = Past(database, tenant)
    await made.subscribe()
    return made
