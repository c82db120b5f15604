"""API keys."""

from collections.abc import Sequence
from http import HTTPStatus

import pytest

from common import ids
from services.gateway.auth.authentication import CACHED_SECONDS, MAX_CACHED, KeyCache, hash_key, new_key
from services.gateway.auth.store import Key, KeyStore
from services.gateway.http.problems import Problem

KEY = Key(ids.new(), ids.new())


class MemoryKeyStore(KeyStore):
    """Keys without a database."""

    def __init__(self, *keys: str) -> None:
        self.hashes = {hash_key(key): KEY for key in keys}

    async def find_keys(self, hashes: Sequence[bytes]) -> dict[bytes, Key]:
        return {key_hash: self.hashes[key_hash] for key_hash in hashes if key_hash in self.hashes}


def test_a_key_is_kept_as_its_sha256() -> None:
    assert hash_key("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_key_of_any_characters_can_be_hashed() -> None:
    assert hash_key("\udcff") != hash_key("ÿ")


def test_new_keys_are_long_and_differ() -> None:
    first, second = new_key(), new_key()
    assert first != second
    assert first.startswith("ch_")
    assert len(first) >= 40


@pytest.mark.parametrize("header", ["Bearer ch_a", "bearer ch_a", "Bearer   ch_a "])
async def test_a_known_key_is_let_in(header: str) -> None:
    assert await KeyCache(MemoryKeyStore("ch_a")).find(header) == KEY


@pytest.mark.parametrize(
    "header", [None, "", "ch_a", "Basic ch_a", "Bearer", "Bearer  ", "Bearer ch_b", "Bearer ch_a x"]
)
async def test_anything_else_is_refused_and_told_how(header: str | None) -> None:
    with pytest.raises(Problem) as caught:
        await KeyCache(MemoryKeyStore("ch_a")).find(header)
    assert caught.value.status == HTTPStatus.UNAUTHORIZED
    assert caught.value.headers == {"WWW-Authenticate": "Bearer"}


async def test_a_cached_key_is_looked_up_again_after_a_while() -> None:
    now = 0.0
    store = MemoryKeyStore("ch_a")
    keys = KeyCache(store, lambda: now)
    await keys.find("Bearer ch_a")
    store.hashes.clear()
    assert await keys.find("Bearer ch_a") == KEY
    now = CACHED_SECONDS
    with pytest.raises(Problem):
        await keys.find("Bearer ch_a")


async def test_a_revoked_key_is_refused_as_soon_as_the_cache_is_cleared() -> None:
    store = MemoryKeyStore("ch_a")
    keys = KeyCache(store)
    await keys.find("Bearer ch_a")
    store.hashes.clear()
    keys.clear()
    with pytest.raises(Problem):
        await keys.find("Bearer ch_a")


async def test_a_lookup_from_before_a_revocation_is_not_cached() -> None:
    class RevokedMeanwhile(MemoryKeyStore):
        async def find_keys(self, hashes: Sequence[bytes]) -> dict[bytes, Key]:
            found = await super().find_keys(hashes)
            self.hashes.clear()
            keys.clear()
            return found

    keys = KeyCache(RevokedMeanwhile("ch_a"))
    await keys.find("Bearer ch_a")
    with pytest.raises(Problem):
        await keys.find("Bearer ch_a")


async def test_so_many_keys_are_remembered_and_no_more() -> None:
    keys = KeyCache(MemoryKeyStore(*(f"ch_{number}" for number in range(MAX_CACHED + 1))))
    for number in range(MAX_CACHED + 1):
        await keys.find_keys([hash_key(f"ch_{number}")])
    assert len(keys) == 1


async def test_the_example_key_is_for_development_only() -> None:
    store = MemoryKeyStore("ch_dev")
    with pytest.raises(Problem, match="an example that everybody knows") as caught:
        await KeyCache(store).find("Bearer ch_dev")
    assert caught.value.status == HTTPStatus.UNAUTHORIZED
    keys = KeyCache(store, development=True, public_url="https://charonia.example.com")
    assert await keys.find("Bearer ch_dev", "localhost:8080") == KEY
    assert await keys.find("Bearer ch_dev", "charonia.example.com") == KEY


async def test_the_example_key_is_refused_under_the_name_of_another_site() -> None:
    """A page there reaches this machine if its name leads here: DNS rebinding."""
    store = MemoryKeyStore("ch_dev", "ch_a")
    for host in ("evil.example:8080", None):
        with pytest.raises(Problem, match="not accepted under this Host") as caught:
            await KeyCache(store, development=True).find("Bearer ch_dev", host)
        assert (caught.value.status, caught.value.code) == (HTTPStatus.FORBIDDEN, "host_refused")
    assert await KeyCache(store, development=True).find("Bearer ch_a", "evil.example") == KEY


async def test_a_key_is_not_cached_beyond_its_expiry() -> None:
    now = 0.0
    store = MemoryKeyStore("ch_a")
    store.hashes[hash_key("ch_a")] = KEY._replace(expires_in=1.0)
    keys = KeyCache(store, lambda: now)
    assert (await keys.find("Bearer ch_a")).id == KEY.id
    store.hashes[hash_key("ch_a")] = KEY._replace(expires_in=0.0)
    now = 0.9
    assert (await keys.find("Bearer ch_a")).id == KEY.id
    now = 1.0
    with pytest.raises(Problem, match="has expired"):
        await keys.find("Bearer ch_a")
