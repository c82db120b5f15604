"""A client for the tests of events."""

from collections.abc import AsyncIterator

import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the stack's own gateway, with time to read streams."""
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30) as client:
        yield client
