"""Which items have a line in which file of their batch."""

from uuid import UUID

import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from services.gateway.http.pagination import Cursor
from services.gateway.http.validation.timestamps import EARLIEST, LATEST
from services.gateway.openai.batches.store import RequestStore
from tests.integration.gateway.openai.batches.gateway import Gateway, line
from tests.integration.jobs import add_tenant, claim, new_end
from tests.integration.world import World

NEWEST, OLDEST = Cursor(LATEST, UUID(int=2**128 - 1)), Cursor(EARLIEST, UUID(int=0))
ENDS = {1: Status.SUCCEEDED, 2: Status.FAILED, 3: Status.SUCCEEDED}


@pytest.fixture
async def batch(gateway: Gateway, world: World) -> UUID:
    """A batch with a wrong line, three that have ended, one that runs and one that waits."""
    made = await gateway.create(b"wrong\n" + b"".join(line(number) for number in range(1, 6)))
    await gateway.import_all()
    found = await world.database.fetch("SELECT index, job_id FROM batch_items WHERE job_id IS NOT NULL ORDER BY index")
    for record in found[:4]:
        running = await claim(world.database, record["job_id"])
        if status := ENDS.get(record["index"]):
            await end_jobs(world.database, [new_end(running, status)])
    return made


async def list_lines(store: RequestStore, batch: UUID, *, errors: bool) -> list[int]:
    sizes = await store.measure_lines(batch, 0, 100, errors=errors)
    assert len(sizes) == 6
    return [index for index, size in enumerate(sizes) if size is not None]


async def test_an_item_has_a_line_in_one_file_once_it_has_ended(gateway: Gateway, batch: UUID) -> None:
    assert await list_lines(gateway.store, batch, errors=False) == [1, 3]
    assert await list_lines(gateway.store, batch, errors=True) == [0, 2]
    assert len(await gateway.store.measure_lines(batch, 4, 100, errors=True)) == 2


async def test_a_line_is_read_with_its_call_and_outputs(gateway: Gateway, batch: UUID) -> None:
    sizes = await gateway.store.measure_lines(batch, 0, 100, errors=False)
    (row,) = await gateway.store.read_lines(batch, [3], [sizes[3] or 0], errors=False)
    assert (row.number, row.custom_id, row.problem) == (3, "3", None)
    assert row.job is not None
    assert row.job.status is Status.SUCCEEDED
    assert b"text 3" in (row.request or b"")
    assert row.outputs is not None
    assert (sizes[3] or 0) >= len(row.outputs) + len(row.request or b"")


async def test_what_has_grown_since_it_was_measured_is_left_out(gateway: Gateway, batch: UUID) -> None:
    assert await gateway.store.read_lines(batch, [1, 3], [1, 100_000], errors=False) != []
    found = await gateway.store.read_lines(batch, [1, 3], [1, 100_000], errors=False)
    assert [row.number for row in found] == [3]


async def test_errors_are_read_without_outputs(gateway: Gateway, batch: UUID) -> None:
    refused, failed = await gateway.store.read_lines(batch, [0, 2], [0, 0], errors=True)
    assert (refused.job, b"malformed_json" in (refused.problem or b"")) == (None, True)
    assert failed.job is not None
    assert (failed.job.status, failed.outputs, failed.request) == (Status.FAILED, None, None)


async def test_a_batch_has_the_files_that_have_lines(gateway: Gateway, world: World, batch: UUID) -> None:
    waiting = await gateway.create(line(1))
    await gateway.import_all()
    store, tenant = gateway.store, world.tenant
    for found in (
        await store.list_files(tenant, NEWEST, 10, oldest_first=False),
        await store.list_files(tenant, OLDEST, 10, oldest_first=True),
    ):
        assert [(each.id, each.has_output, each.has_errors) for each in found] == [(batch, True, True)]
    files = await store.find_files(waiting, tenant)
    assert files is not None
    assert (files.has_output, files.has_errors) == (False, False)
    stranger = await add_tenant(world.database, "stranger")
    assert await store.find_files(batch, stranger) is None
    assert await store.find_files(ids.new(), tenant) is None
    assert await store.list_files(stranger, NEWEST, 10, oldest_first=False) == []


async def test_batches_are_listed_from_a_place(gateway: Gateway, world: World) -> None:
    made = [await gateway.create(line(1)) for _ in range(3)]
    found = await gateway.store.list_batches(world.tenant, NEWEST, 2)
    assert [each.row.id for each in found] == made[:0:-1]
    place = Cursor(found[-1].row.created_at, found[-1].row.id)
    assert [each.row.id for each in await gateway.store.list_batches(world.tenant, place, 2)] == made[:1]
