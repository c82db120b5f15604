"""A client of the tests' Triton."""

from collections.abc import AsyncIterator

import pytest

from deploy.local.servers.triton import Triton as Server
from services.dispatcher.triton.client import TritonClient
from tests.integration.dispatcher.inference import connect


@pytest.fixture
async def client(triton: Server) -> AsyncIterator[TritonClient]:
    connected = connect(triton)
    yield connected
    await connected.close()
