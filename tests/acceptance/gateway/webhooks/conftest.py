"""A tenant of its own for each test: subscriptions get no events of jobs that other tests left."""

from collections.abc import AsyncIterator

import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.tenants import make_tenant


@pytest.fixture
async def api(stack: Stack) -> AsyncIterator[Api]:
    """A client of a tenant without jobs."""
    async with open_client(stack, await make_tenant(stack, "webhooks")) as client:
        yield client
