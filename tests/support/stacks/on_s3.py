"""A gateway and a dispatcher of a stack that keep files in S3."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client, restore_stack
from tests.support.api.api_client import Api
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.stacks.own_gateway import another_gateway


@dataclass(frozen=True)
class OnS3:
    """A gateway and a dispatcher that keep files in S3, and a client of a new tenant."""

    api: Api
    s3: S3
    gateway: Service
    dispatcher: Service
    bucket: str


@asynccontextmanager
async def move_to_s3(stack: Stack, s3: S3, **settings: str) -> AsyncIterator[OnS3]:
    """Run a gateway and the only dispatcher of a stack on S3, with more settings."""
    name = f"inputs-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(name)
    environment = {"CHARONIA_STORE_URL": f"s3://{name}/some/prefix", **s3.environment, **settings}
    key = await make_key(stack, name)
    try:
        async with (
            another_gateway(stack, **environment) as gateway,
            replace_dispatcher(stack, **environment) as dispatcher,
            open_client(stack, key, gateway.url) as api,
        ):
            yield OnS3(api, s3, gateway, dispatcher, name)
            s3.thaw()
    finally:
        await asyncio.to_thread(restore_stack, stack)
