"""A tenant with a bucket of its own, beside the one of Charonia."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from common.object_store.store import ObjectStore
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.integration.common.object_store.streams import read_all, stream
from tests.support.api.api_client import Api
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key, run_command
from tests.support.stacks.on_s3 import OnS3


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
async def open_customer(stack: Stack, moved: OnS3, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Customer]:
    """Yield a new customer of a gateway and a dispatcher whose own store is in S3 too. Nothing is allowed yet."""
    name, bucket = (f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("customer", "bucket"))
    moved.s3.create_bucket(bucket)
    for variable, value in moved.s3.environment.items():
        monkeypatch.setenv(variable, value)
    async with open_client(stack, await make_key(stack, name), moved.gateway.url) as api:
        yield Customer(api, name, bucket, moved.bucket, stack, moved.s3)
