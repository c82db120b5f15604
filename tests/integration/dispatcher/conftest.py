"""A client of the tests' Triton."""

from collections.abc import AsyncIterator

import pytest

from deploy.local.triton import Triton as Server
from services.dispatcher.triton import Triton
from tests.integration.dispatcher.asking import LIMIT


@pytest.fixture
async def client(triton: Server) -> AsyncIterator[Triton]:
    connected = Triton(triton.grpc_address, LIMIT)
    yield connected
    await connected.close()
