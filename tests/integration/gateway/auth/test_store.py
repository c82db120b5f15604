"""Tenants and keys in the database."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.postgres.database import Database
from services.gateway.auth.authentication import KeyCache, hash_key
from services.gateway.auth.scopes import ALL, Scope
from services.gateway.auth.store import QUERIES, KeyStore
from services.gateway.http.problems import Problem
from services.gateway.webhooks.store import WebhookStore
from tests.integration.waiting import until_blocked
from tests.support.database.later_release import ADD_SCOPE, ALLOW_MORE_SCOPES


@pytest.fixture
def store(database: Database) -> KeyStore:
    return KeyStore(database)


async def test_a_key_finds_its_tenant_until_it_is_revoked(database: Database, store: KeyStore, tenant: UUID) -> None:
    hashes = [hash_key("a"), hash_key("b"), hash_key("unknown")]
    for key_hash in hashes[:2]:
        await store.add_key(ids.new(), tenant, "test", key_hash, actor="test")
    await database.fetch("UPDATE api_keys SET revoked_at = now() WHERE key_hash = $1", hashes[1])
    found = await store.find_keys(hashes)
    assert {key_hash: key.tenant_id for key_hash, key in found.items()} == {hashes[0]: tenant}


async def test_a_scope_of_a_later_release_allows_nothing(database: Database, store: KeyStore, tenant: UUID) -> None:
    key_id = ids.new()
    await store.add_key(key_id, tenant, "test", hash_key("a"), [Scope.READ], actor="test")
    await database.fetch(ALLOW_MORE_SCOPES)
    await database.fetch(ADD_SCOPE, key_id)
    assert (await store.find_keys([hash_key("a")]))[hash_key("a")].scopes == {Scope.READ}


async def test_a_key_has_all_scopes_and_no_limit_of_its_own_unless_it_was_given_them(
    database: Database, store: KeyStore, tenant: UUID
) -> None:
    await database.fetch(
        "INSERT INTO api_keys (id, tenant_id, name, key_hash) VALUES ($1, $2, 'before there were scopes', $3)",
        ids.new(),
        tenant,
        hash_key("old"),
    )
    await store.add_key(ids.new(), tenant, "new", hash_key("new"), [Scope.READ], 7, actor="test")
    found = await store.find_keys([hash_key("old"), hash_key("new")])
    old, new = found[hash_key("old")], found[hash_key("new")]
    assert (old.scopes, old.rate_limit) == (ALL, None)
    assert (new.scopes, new.rate_limit) == (frozenset({Scope.READ}), 7)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("UPDATE api_keys SET scopes = '{read,write}'")
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("UPDATE api_keys SET scopes = '{}'")


async def test_a_key_may_run_every_model_unless_it_was_given_some(
    database: Database, store: KeyStore, tenant: UUID
) -> None:
    await store.add_key(ids.new(), tenant, "every", hash_key("every"), actor="test")
    await store.add_key(ids.new(), tenant, "some", hash_key("some"), models=["ocr*", "llm"], actor="test")
    found = await store.find_keys([hash_key("every"), hash_key("some")])
    assert [found[hash_key(name)].models for name in ("every", "some")] == [None, ("ocr*", "llm")]
    assert [row.models for row in await store.list_keys(tenant)] == [None, ["ocr*", "llm"]]
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("UPDATE api_keys SET models = '{}'")


async def test_the_last_use_is_noted_once_a_minute(database: Database, store: KeyStore, tenant: UUID) -> None:
    async def use() -> datetime | None:
        await KeyCache(store).find("Bearer a")
        (row,) = await store.list_keys(tenant)
        return row.last_used_at

    await store.add_key(ids.new(), tenant, "test", hash_key("a"), actor="test")
    first = await use()
    assert first is not None
    assert await use() == first
    await database.fetch("UPDATE api_keys SET last_used_at = now() - interval '61 seconds'")
    second = await use()
    assert second is not None
    assert second > first


async def test_a_use_that_cannot_be_noted_is_let_in_all_the_same(
    database: Database, store: KeyStore, tenant: UUID
) -> None:
    class ReadOnly(KeyStore):
        async def note_uses(self, keys: Sequence[UUID]) -> None:
            raise DatabaseUnavailable

    await store.add_key(ids.new(), tenant, "test", hash_key("a"), actor="test")
    assert (await KeyCache(ReadOnly(database)).find("Bearer a")).tenant_id == tenant


async def test_a_use_that_another_gateway_notes_is_not_waited_for(
    database: Database, store: KeyStore, tenant: UUID
) -> None:
    key = ids.new()
    await store.add_key(key, tenant, "test", hash_key("a"), actor="test")
    async with database.transaction() as connection:
        await connection.execute("SELECT FROM api_keys FOR UPDATE")
        await asyncio.wait_for(store.note_uses([key]), 5)
    (row,) = await store.list_keys(None)
    assert row.last_used_at is None


async def test_making_a_tenant_or_key_again_changes_nothing(database: Database, store: KeyStore, tenant: UUID) -> None:
    await store.add_tenant(ids.new(), "default", b"another secret", actor="test")
    assert await store.find_tenant("default") == tenant
    assert await WebhookStore(database).find_tenant_secret(tenant) == b"sealed"
    first = ids.new()
    for key in (first, ids.new()):
        await store.add_key(key, tenant, "test", hash_key("a"), actor="test")
    assert (await store.find_keys([hash_key("a")]))[hash_key("a")].id == first


async def test_an_expired_key_is_refused_with_its_reason_and_no_use_is_noted(
    database: Database, store: KeyStore, tenant: UUID
) -> None:
    await store.add_key(
        ids.new(), tenant, "test", hash_key("a"), expires_at=datetime.now(UTC) + timedelta(hours=1), actor="test"
    )
    keys = KeyCache(store)
    assert (await keys.find("Bearer a")).tenant_id == tenant
    await database.fetch("UPDATE api_keys SET expires_at = now() - interval '1 second', last_used_at = NULL")
    keys.clear()
    with pytest.raises(Problem) as refused:
        await keys.find("Bearer a")
    assert (refused.value.status, "has expired" in refused.value.detail) == (HTTPStatus.UNAUTHORIZED, True)
    (row,) = await store.list_keys(tenant)
    assert row.last_used_at is None


async def test_keys_that_a_key_made_are_revoked_with_it(store: KeyStore, tenant: UUID) -> None:
    """The second key is revoked, with all that it made, directly or not."""
    keys = [ids.new() for _ in range(4)]
    for depth, key in enumerate(keys):
        await store.add_key(key, tenant, "made", hash_key(str(depth)), makers=keys[:depth], actor="test")
    await store.add_key(ids.new(), tenant, "sister", hash_key("sister"), makers=keys[:1], actor="test")
    found = (await store.find_keys([hash_key("3")]))[hash_key("3")]
    assert (found.id, found.makers) == (keys[3], tuple(keys[:3]))
    makers = {row.id: row.made_by for row in await store.list_keys(tenant)}
    assert [makers.pop(key) for key in keys] == [None, *keys[:3]]
    assert [*makers.values()] == [keys[0]]
    assert await store.revoke_own(keys[1], tenant, actor="test")
    left = await store.find_keys([hash_key(name) for name in ("0", "1", "2", "3", "sister")])
    assert left.keys() == {hash_key("0"), hash_key("sister")}
    late = ids.new()
    await store.add_key(late, tenant, "late", hash_key("late"), makers=keys[:2], actor="test")
    assert await store.find_active(late, tenant) is None
    assert await store.revoke(keys[0], actor="test")
    assert await store.list_active(tenant, UUID(int=0), 9) == []
    assert not await store.revoke_own(keys[0], tenant, actor="test")


@pytest.mark.parametrize("own", [True, False])
async def test_a_key_that_is_made_while_its_maker_is_revoked_goes_too(
    database: Database, store: KeyStore, tenant: UUID, *, own: bool
) -> None:
    maker, made = ids.new(), ids.new()
    await store.add_key(maker, tenant, "maker", hash_key("maker"), actor="test")
    values = made, tenant, "made", hash_key("made"), ["read"], None, None, None, [maker]
    async with database.transaction() as making:
        assert await making.fetchval(QUERIES["add_key"], *values) == made
        revoke = store.revoke_own(maker, tenant, actor="test") if own else store.revoke(maker, actor="test")
        revoking = asyncio.create_task(revoke)
        await until_blocked(database)
    assert await revoking
    assert await store.find_keys([hash_key("maker"), hash_key("made")]) == {}
