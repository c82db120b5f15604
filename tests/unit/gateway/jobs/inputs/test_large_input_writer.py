"""Large inputs of a tenant leave memory and the object store to others."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import cast

from common import ids
from common.jobs.new_job import LargeInput
from common.object_store.store import ObjectStore, StoredObject
from common.postgres.database import Database
from services.gateway.jobs.inputs.large_input_writer import MAX_PUTS, MAX_PUTS_OF_TENANT, LargeInputWriter
from services.gateway.jobs.inputs.store import InputStore
from services.gateway.jobs.inputs.stored_limit import StoredLimit
from tests.integration.jobs import new_job


class Fake:
    """A store of rows, a limit, and an object store whose puts end when `go` is set."""

    def __init__(self) -> None:
        self.puts: Counter[str] = Counter()
        self.go = asyncio.Event()

    async def admit(self, *_values: object) -> None: ...

    async def begin(self, *_values: object) -> None: ...

    async def put(self, key: str, _parts: AsyncIterator[bytes]) -> StoredObject:
        self.puts[key.split("/")[0]] += 1
        await self.go.wait()
        return StoredObject(1, b"")


async def test_a_tenant_leaves_puts_to_others() -> None:
    fake = Fake()
    writer = LargeInputWriter(
        cast("Database", None), cast("InputStore", fake), cast("ObjectStore", fake), cast("StoredLimit", fake)
    )

    async def write() -> None:
        large = [LargeInput(ids.new(), b"x", b"") for _ in range(MAX_PUTS)]
        async with writer.written([new_job(ids.new(), large_inputs=large)]):
            pass

    writes = [asyncio.create_task(write()) for _ in range(3)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert sorted(fake.puts.values()) == [MAX_PUTS - 2 * MAX_PUTS_OF_TENANT, MAX_PUTS_OF_TENANT, MAX_PUTS_OF_TENANT]
    fake.go.set()
    await asyncio.gather(*writes)
    assert fake.puts.total() == 3 * MAX_PUTS
