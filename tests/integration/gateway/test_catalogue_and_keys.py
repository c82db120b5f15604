"""Tenants, keys and the catalogue in the database."""

from uuid import UUID

import pytest

from common import ids
from common.database import Database
from common.tensors import Datatype, Signature
from services.dispatcher.store import Store as DispatcherStore
from services.dispatcher.triton import Model
from services.gateway.auth import hash_key
from services.gateway.store import Store
from services.gateway.webhook_store import WebhookStore


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def test_a_key_finds_its_tenant_until_it_is_revoked(database: Database, store: Store, tenant: UUID) -> None:
    hashes = [hash_key("a"), hash_key("b"), hash_key("unknown")]
    for key_hash in hashes[:2]:
        await store.add_key(ids.new(), tenant, "test", key_hash)
    await database.fetch("UPDATE api_keys SET revoked_at = now() WHERE key_hash = $1", hashes[1])
    found = await store.find_keys(hashes)
    assert {key_hash: key.tenant_id for key_hash, key in found.items()} == {hashes[0]: tenant}


async def test_making_a_tenant_or_key_again_changes_nothing(database: Database, store: Store, tenant: UUID) -> None:
    await store.add_tenant(ids.new(), "default", b"another secret")
    assert await store.find_tenant("default") == tenant
    assert await WebhookStore(database).find_tenant_secret(tenant) == b"sealed"
    first = ids.new()
    for key in (first, ids.new()):
        await store.add_key(key, tenant, "test", hash_key("a"))
    assert (await store.find_keys([hash_key("a")]))[hash_key("a")].id == first


async def test_the_dispatchers_catalogue_is_what_the_gateway_reads(database: Database, store: Store) -> None:
    inputs = [Signature("x", Datatype.FP32, [-1, 3]), Signature("hint", Datatype.BYTES, [1], optional=True)]
    outputs = [Signature("y", Datatype.BF16, [-1])]
    model = Model("ocr", "2", True, 8, 3, inputs, outputs)
    dispatcher = DispatcherStore(database)
    await dispatcher.save_models([(model, True)])
    (row,) = await store.list_models()
    assert (row.name, row.version, row.ready, row.decoupled, row.max_batch_size) == ("ocr", "2", True, True, 8)
    assert (row.inputs, row.outputs) == (inputs, outputs)
    await dispatcher.save_models([(model, False)])
    assert [each.ready for each in await store.list_models()] == [False]


async def test_a_model_that_no_dispatcher_refreshes_is_not_ready(database: Database, store: Store) -> None:
    await DispatcherStore(database).save_models([(Model("ocr", "1", False, 0, 1, [], []), True)])
    await database.fetch("UPDATE models SET updated_at = now() - interval '31 seconds'")
    assert [row.ready for row in await store.list_models()] == [False]
