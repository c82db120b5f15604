"""Tenants, keys and the catalogue in the database."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.database import Database
from common.errors import DatabaseUnavailable
from common.tensors import Datatype, Signature
from services.dispatcher.store import Store as DispatcherStore
from services.dispatcher.triton import Model
from services.gateway.auth import Keyring, hash_key
from services.gateway.key_store import KeyStore
from services.gateway.scopes import ALL, Scope
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


async def test_a_key_has_all_scopes_and_no_limit_of_its_own_unless_it_was_given_them(
    database: Database, store: Store, tenant: UUID
) -> None:
    await database.fetch(
        "INSERT INTO api_keys (id, tenant_id, name, key_hash) VALUES ($1, $2, 'before there were scopes', $3)",
        *(ids.new(), tenant, hash_key("old")),
    )
    await store.add_key(ids.new(), tenant, "new", hash_key("new"), [Scope.READ], 7)
    found = await store.find_keys([hash_key("old"), hash_key("new")])
    old, new = found[hash_key("old")], found[hash_key("new")]
    assert (old.scopes, old.rate_limit) == (ALL, None)
    assert (new.scopes, new.rate_limit) == (frozenset({Scope.READ}), 7)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("UPDATE api_keys SET scopes = '{read,write}'")
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("UPDATE api_keys SET scopes = '{}'")


async def test_the_last_use_is_noted_once_a_minute(database: Database, store: Store, tenant: UUID) -> None:
    async def use() -> datetime | None:
        await Keyring(store).authenticate("Bearer a")
        (row,) = await KeyStore(database).list(tenant)
        return row.last_used_at

    await store.add_key(ids.new(), tenant, "test", hash_key("a"))
    first = await use()
    assert first is not None
    assert await use() == first
    await database.fetch("UPDATE api_keys SET last_used_at = now() - interval '61 seconds'")
    second = await use()
    assert second is not None
    assert second > first


async def test_a_use_that_cannot_be_noted_is_let_in_all_the_same(store: Store, tenant: UUID) -> None:
    class ReadOnly(Store):
        async def note_uses(self, keys: Sequence[UUID]) -> None:
            raise DatabaseUnavailable

    await store.add_key(ids.new(), tenant, "test", hash_key("a"))
    assert (await Keyring(ReadOnly(store.database)).authenticate("Bearer a")).tenant_id == tenant


async def test_a_use_that_another_gateway_notes_is_not_waited_for(
    database: Database, store: Store, tenant: UUID
) -> None:
    key = ids.new()
    await store.add_key(key, tenant, "test", hash_key("a"))
    async with database.transaction() as connection:
        await connection.execute("SELECT FROM api_keys FOR UPDATE")
        await asyncio.wait_for(store.note_uses([key]), 5)
    (row,) = await KeyStore(database).list(None)
    assert row.last_used_at is None


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
