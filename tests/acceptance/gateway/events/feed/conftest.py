"""A tenant of its own for each test, so that its feed is empty."""

from collections.abc import AsyncIterator

import httpx
import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.stacks.key_command import make_key


@pytest.fixture
async def own(stack: Stack, request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """A client of a tenant without events."""
    async with open_client(stack, await make_key(stack, request.node.name[:100])) as client:
        client.http.timeout = httpx.Timeout(60)
        yield client
