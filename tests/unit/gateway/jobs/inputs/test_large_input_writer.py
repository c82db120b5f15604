"""Large inputs of a tenant leave memory and the object store to others."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from uuid import UUID

from common import ids
from common.jobs.new_job import LargeInput
from common.object_store.store import ObjectStore, StoredObject
from services.gateway.jobs.inputs.large_input_writer import MAX_PUTS, MAX_PUTS_OF_TENANT, LargeInputWriter
from services.gateway.jobs.inputs.store import InputStore
from services.gateway.jobs.inputs.stored_limit import StoredLimit
from tests.integration.jobs import new_job
from tests.unit.fake_database import FakeDatabase


class FakeStore(InputStore):
    async def begin(self, tenant_id: UUID, inputs: Sequence[LargeInput], seconds: float) -> None: ...

    async def measure(self, tenants: Collection[UUID]) -> dict[UUID, int]:
        return {}


class SlowObjects(ObjectStore):
    """Its puts end when `go` is set."""

    def __init__(self) -> None:
        self.puts: Counter[str] = Counter()
        self.go = asyncio.Event()

    async def put(self, key: str, *_: object, **__: object) -> StoredObject:
        self.puts[key.split("/")[0]] += 1
        await self.go.wait()
        return StoredObject(1, b"")


async def test_a_tenant_leaves_puts_to_others() -> None:
    database, objects = FakeDatabase(), SlowObjects()
    store = FakeStore(database)
    writer = LargeInputWriter(database, store, objects, StoredLimit(store, 2**20))

    async def write() -> None:
        large = [LargeInput(ids.new(), b"x", b"") for _ in range(MAX_PUTS)]
        async with writer.written([new_job(ids.new(), large_inputs=large)]):
            pass

    writes = [asyncio.create_task(write()) for _ in range(3)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert sorted(objects.puts.values()) == [MAX_PUTS - 2 * MAX_PUTS_OF_TENANT, MAX_PUTS_OF_TENANT, MAX_PUTS_OF_TENANT]
    objects.go.set()
    await asyncio.gather(*writes)
    assert objects.puts.total() == 3 * MAX_PUTS
