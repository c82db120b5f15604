"""Clients of the stack's gateway, synchronous and asynchronous."""

from collections.abc import AsyncIterator, Iterator

import pytest
from charonia import AsyncCharonia, Charonia

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack


@pytest.fixture
def client(stack: Stack) -> Iterator[Charonia]:
    with Charonia(stack.url, DEVELOPMENT_KEY) as client:
        yield client


@pytest.fixture
async def async_client(stack: Stack) -> AsyncIterator[AsyncCharonia]:
    async with AsyncCharonia(stack.url, DEVELOPMENT_KEY) as client:
        yield client
