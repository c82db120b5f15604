"""Gateways that keep files in a folder, and in S3. The tests of a module share them."""

import uuid
from collections.abc import AsyncIterator

import pytest

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway


@pytest.fixture(scope="module")
def bucket(s3: S3) -> dict[str, str]:
    """The variables of a service with a new bucket."""
    name = f"files-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(name)
    return {"CHARONIA_STORE_URL": f"s3://{name}/some/prefix"} | s3.environment


@pytest.fixture(scope="module")
async def on_s3(stack: Stack, bucket: dict[str, str]) -> AsyncIterator[Service]:
    """A gateway that keeps files in a bucket, and redirects downloads to it."""
    async with another_gateway(stack, name="gateway-s3", **bucket) as own:
        yield own


@pytest.fixture(params=["folder", "s3"], scope="module")
async def gateway(request: pytest.FixtureRequest, stack: Stack) -> AsyncIterator[str]:
    """The URL of a gateway, which sends files itself."""
    if request.param == "folder":
        yield stack.url
        return
    bucket: dict[str, str] = request.getfixturevalue("bucket")
    async with another_gateway(stack, name="gateway-s3", CHARONIA_STORE_REDIRECTS="false", **bucket) as own:
        yield own.url


@pytest.fixture
async def owner(stack: Stack, gateway: str) -> AsyncIterator[Api]:
    """A client of a new tenant."""
    async with open_client(stack, await make_key(stack, f"files-{uuid.uuid4().hex[:8]}"), gateway) as api:
        yield api
