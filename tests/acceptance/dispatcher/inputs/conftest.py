"""A tenant for each test, and a stack that keeps files in S3, which the tests of a module share."""

import uuid
from collections.abc import AsyncIterator

import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key
from tests.support.stacks.on_s3 import OnS3, move_to_s3


@pytest.fixture(scope="module")
async def shared_on_s3(stack: Stack, s3: S3) -> AsyncIterator[OnS3]:
    async with move_to_s3(stack, s3) as found:
        yield found


@pytest.fixture
async def owner(stack: Stack) -> AsyncIterator[Api]:
    """A client of a new tenant."""
    async with open_client(stack, await make_key(stack, f"inputs-{uuid.uuid4().hex[:8]}")) as api:
        yield api
