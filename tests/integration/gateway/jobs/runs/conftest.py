"""Fixtures for tests of runs."""

from uuid import UUID

import pytest

from common.postgres.database import Database
from tests.integration.gateway.jobs.runs.client import Client


@pytest.fixture
async def client(database: Database, tenant: UUID) -> Client:
    client = Client(database, tenant)
    await client.begin()
    return client
