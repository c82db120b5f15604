"""A tenant with a bucket of its own, beside the one of Charonia."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from common.object_store.store import ObjectStore
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client, restore_stack
from tests.integration.common.object_store.streams import read_all, stream
from tests.support.api.api_client import Api
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key, run_command
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.stacks.own_gateway import another_gateway


@dataclass(frozen=True)
class Customer:
    """A tenant with a bucket. Charonia's own files are in another bucket."""

    api: Api
    name: str
    bucket: str
    own: str
    stack: Stack
    s3: S3

    async def put(self, key: str, content: bytes, bucket: str | None = None) -> str:
        """Store an object. Return its URL."""
        store = ObjectStore(f"s3://{bucket or self.bucket}")
        await store.put(key, stream(content))
        store.close()
        return f"s3://{bucket or self.bucket}/{key}"

    async def read(self, url: str) -> bytes:
        """Return the content of an object in the tenant's bucket."""
        store = ObjectStore(f"s3://{self.bucket}")
        try:
            return await read_all(store, url.removeprefix(f"s3://{self.bucket}/"))
        finally:
            store.close()

    async def run_command(self, *arguments: str) -> tuple[int, str]:
        done = await run_command(self.stack, "locations", *arguments)
        return done.returncode, done.stdout.strip() or done.stderr.strip()

    async def refuse(self, inputs: object, **options: object) -> tuple[str, str]:
        """Return the field and the reason of a refused submit."""
        body = {"model": "ocr", "inputs": inputs, **options}
        response = await self.api.http.post("/v1/jobs", json=body)
        assert response.status_code == 422, response.text
        (error,) = response.json()["errors"]
        return error["pointer"], error["detail"]


@asynccontextmanager
async def open_customer(stack: Stack, s3: S3, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Customer]:
    """Yield a customer of a gateway and a dispatcher whose own store is in S3 too. Nothing is allowed yet."""
    name, bucket, own = (f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("customer", "bucket", "own"))
    for each in (bucket, own):
        s3.create_bucket(each)
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    environment = {"CHARONIA_STORE_URL": f"s3://{own}/some/prefix", **s3.environment}
    key = await make_key(stack, name)
    try:
        async with (
            another_gateway(stack, **environment) as gateway,
            replace_dispatcher(stack, **environment),
            open_client(stack, key, gateway.url) as api,
        ):
            yield Customer(api, name, bucket, own, stack, s3)
            s3.thaw()
    finally:
        await asyncio.to_thread(restore_stack, stack)
