"""Stacks that keep files in a folder, and in S3. Tests of one module share them where none breaks anything."""

import uuid
from collections.abc import AsyncIterator

import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key
from tests.support.stacks.on_s3 import OnS3, move_to_s3


@pytest.fixture
async def on_s3(stack: Stack, s3: S3) -> AsyncIterator[OnS3]:
    async with move_to_s3(stack, s3) as found:
        yield found


@pytest.fixture(scope="module")
async def shared_on_s3(stack: Stack, s3: S3) -> AsyncIterator[OnS3]:
    async with move_to_s3(stack, s3) as found:
        yield found


@pytest.fixture(params=["folder", "s3"], scope="module")
async def url(request: pytest.FixtureRequest, stack: Stack) -> AsyncIterator[str]:
    """The URL of a gateway. The dispatcher keeps files in the same store.

    Tests that replace the dispatcher or break it come first in their module: this one replaces it until the end.
    """
    if request.param == "s3":
        async with move_to_s3(stack, request.getfixturevalue("s3")) as found:
            yield found.gateway.url
        return
    yield stack.url


@pytest.fixture
async def owner(stack: Stack, url: str) -> AsyncIterator[Api]:
    """A client of a new tenant."""
    async with open_client(stack, await make_key(stack, f"inputs-{uuid.uuid4().hex[:8]}"), url) as api:
        yield api
