"""A batch is created of a file, which stays while it is read."""

import json
from uuid import UUID

import pytest

from common import ids
from services.gateway.auth.store import Key
from services.gateway.http.pagination import Cursor
from services.gateway.http.problems import Problem
from services.gateway.http.validation.timestamps import LATEST
from services.gateway.jobs.idempotency.store import RequestKey
from services.gateway.openai.batches import creation
from services.gateway.openai.batches.schemas import BatchRequest
from tests.integration.gateway.openai.batches.gateway import CHAT, Gateway, complete, line, list_names
from tests.integration.jobs import TRACEPARENT, add_tenant
from tests.integration.world import World

NEWEST = Cursor(LATEST, UUID(int=2**128 - 1))


async def test_a_file_whose_lines_are_read_stays(gateway: Gateway, world: World) -> None:
    batch = await gateway.create(line(1))
    found = await gateway.store.find(batch, world.tenant)
    assert found is not None
    assert not await gateway.files.delete(found.input_file, world.tenant)
    (record,) = await world.database.fetch("SELECT expires_at > now() + interval '24 hours' AS kept FROM files")
    assert record["kept"]  # although the upload said a minute
    await gateway.import_all()
    assert await gateway.files.delete(found.input_file, world.tenant)


async def test_a_failed_batch_ends_without_lines(gateway: Gateway, world: World) -> None:
    batch = await gateway.create(b"no json\n")
    assert await gateway.find(batch) == ("failed", 1, 0, 0)
    assert not await gateway.importer.sweep()
    assert await complete(world).scan() == 1
    assert await gateway.find(batch) == ("failed", 1, 0, 0)


async def test_a_tenant_has_a_bounded_number_of_batches_to_read(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "MAX_UNREAD", 2)
    for _ in range(2):
        await gateway.create(line(1))
    with pytest.raises(Problem, match="you have 2 batches") as raised:
        await gateway.create(line(1))
    assert raised.value.status == 429
    await gateway.import_all()
    await gateway.create(line(1))


async def test_the_same_key_makes_one_batch(gateway: Gateway, world: World) -> None:
    shown = ids.encode(ids.Kind.FILE, await gateway.upload(line(1)))
    request = BatchRequest(input_file_id=shown, endpoint=CHAT, completion_window="24h")
    caller, key = Key(ids.new(), world.tenant), RequestKey("k", bytes(32))
    made = [await gateway.creator.create(caller, request, key, TRACEPARENT) for _ in range(2)]
    assert (made[0][0], [replayed for _, replayed in made]) == (made[1][0], [False, True])
    with pytest.raises(Problem, match="was used for another request"):
        await gateway.creator.create(caller, request, RequestKey("k", bytes(31) + b"1"), TRACEPARENT)
    assert len(await gateway.store.list_batches(world.tenant, NEWEST, 10)) == 1


async def test_a_key_runs_only_the_models_that_it_may(gateway: Gateway, world: World) -> None:
    shown = ids.encode(ids.Kind.FILE, await gateway.upload(line(1)))
    request = BatchRequest(input_file_id=shown, endpoint=CHAT, completion_window="24h")
    caller = Key(ids.new(), world.tenant, models=("other*",))
    batch, _ = await gateway.creator.create(caller, request, None, TRACEPARENT)
    await gateway.import_all()
    assert await list_names(world.database, batch) == []
    (record,) = await world.database.fetch("SELECT problem FROM batch_items")
    assert json.loads(record["problem"])["status"] == 403


async def test_a_strangers_file_is_none(gateway: Gateway, world: World) -> None:
    shown = ids.encode(ids.Kind.FILE, await gateway.upload(line(1)))
    request = BatchRequest(input_file_id=shown, endpoint=CHAT, completion_window="24h")
    stranger = Key(ids.new(), await add_tenant(world.database, "stranger"))
    with pytest.raises(Problem, match="no file of yours"):
        await gateway.creator.create(stranger, request, None, TRACEPARENT)


async def test_a_file_of_a_job_is_refused(gateway: Gateway, world: World) -> None:
    file = await gateway.upload(line(1))
    await world.database.fetch("UPDATE files SET job_id = $2, expires_at = 'infinity' WHERE id = $1", file, ids.new())
    request = BatchRequest(input_file_id=ids.encode(ids.Kind.FILE, file), endpoint=CHAT, completion_window="24h")
    with pytest.raises(Problem, match="belongs to a job"):
        await gateway.creator.create(Key(ids.new(), world.tenant), request, None, TRACEPARENT)
