"""Rate limits, counted in the database."""

import asyncio
import time
from uuid import UUID

import pytest

from common import ids
from common.postgres.database import Connection, Database
from services.gateway.auth.authentication import hash_key
from services.gateway.auth.rate_limits import PERMIT, Permit, RateLimiter
from services.gateway.auth.store import QUERIES, Key, KeyStore, RateLimitStore, Taken
from services.gateway.http.problems import Problem
from tests.integration.waiting import until_blocked

MOVE = "UPDATE rate_limits SET full_at = full_at + make_interval(secs => $1)"


@pytest.fixture
async def key(database: Database, tenant: UUID) -> UUID:
    """Has a bucket, full."""
    key = ids.new()
    await KeyStore(database).add_key(key, tenant, "test", hash_key("a"), actor="test")
    await RateLimitStore(database).add_buckets([key])
    return key


async def take(connection: Connection, key: UUID, wanted: int, rate: int) -> Taken:
    (record,) = await connection.fetch(QUERIES["take_permits"], [key], [wanted], [rate])
    return Taken(record["permits"], record["full_in"])


@pytest.mark.parametrize("rate", [1, 2, 3, 6, 7, 30, 49, 100])
async def test_a_bucket_holds_what_a_second_brings_and_fills_evenly(database: Database, key: UUID, rate: int) -> None:
    async with database.transaction() as connection:  # within which now() stands still
        assert [(await take(connection, key, 1, rate)).permits for _ in range(rate + 1)] == [1] * rate + [0]
        await connection.execute(MOVE, -1 / rate)
        assert [(await take(connection, key, 1, rate)).permits for _ in range(2)] == [1, 0]
        await connection.execute(MOVE, -60)
        all_of_it = await take(connection, key, rate + 5, rate)
        assert all_of_it.permits == rate
        assert all_of_it.full_in == pytest.approx(1.0, abs=1e-4)


async def test_what_is_refused_costs_nothing(database: Database, key: UUID) -> None:
    async with database.transaction() as connection:
        assert (await take(connection, key, 2, 2)).permits == 2
        for _ in range(3):  # each time a third of a permit comes in
            await connection.execute(MOVE, -1 / 6)
            last = await take(connection, key, 1, 2)
        assert last.permits == 1


async def test_a_clock_that_was_set_back_leaves_no_bucket_empty_for_long(database: Database, key: UUID) -> None:
    async with database.transaction() as connection:
        await connection.execute(MOVE, 3600)
        assert await take(connection, key, 1, 5) == Taken(0, 2.0)
        await connection.execute(MOVE, -1.2)
        assert (await take(connection, key, 5, 5)).permits == 1


async def test_a_gateway_that_waits_for_another_sees_what_it_took(database: Database, key: UUID) -> None:
    async with database.transaction() as connection:
        assert (await take(connection, key, 5, 5)).permits == 5
        await connection.execute(MOVE, 3600)  # so that nothing comes in meanwhile
        asking = asyncio.create_task(RateLimitStore(database).take_permits([(key, 5, 5)]))
        await until_blocked(database)
    found = await asking
    assert found[key].permits == 0


async def test_two_gateways_together_give_no_more_than_the_limit(
    database: Database, database_url: str, tenant: UUID
) -> None:
    rate, each = 20, 100
    keys = [Key(ids.new(), tenant, rate_limit=rate) for _ in range(3)]
    for number, key in enumerate(keys):
        await KeyStore(database).add_key(key.id, tenant, "test", hash_key(str(number)), actor="test")
    other = await Database.connect(database_url, application="tests")
    gateways = [RateLimiter(RateLimitStore(database), 0), RateLimiter(RateLimitStore(other), 0)]

    async def ask(gateway: RateLimiter, key: Key) -> bool:
        try:
            await gateway.admit(key, {})
        except Problem:
            return False
        return True

    began = time.monotonic()
    first, second = gateways  # each in an order of its own
    pairs = [*((first, key) for key in keys), *((second, key) for key in reversed(keys))]
    asked = pairs * each
    granted = await asyncio.gather(*(ask(*each) for each in asked))
    took = time.monotonic() - began
    await other.close()
    for key in keys:
        count = sum(yes for yes, (_, whose) in zip(granted, asked, strict=True) if whose is key)
        assert rate <= count <= rate + rate * took + 1


async def test_buckets_are_made_when_they_are_first_asked(database: Database, key: UUID) -> None:
    await database.fetch("DELETE FROM rate_limits")  # as a crash of the server leaves it
    store = RateLimitStore(database)
    assert await store.take_permits([(key, 1, 5)]) == {}
    scope: dict[str, Permit] = {}
    await RateLimiter(store, 5).admit(Key(key, ids.new()), scope)
    assert scope[PERMIT].remaining == 4
    before = await database.fetch("SELECT * FROM rate_limits")
    await store.add_buckets([key])  # another gateway's, late
    assert await database.fetch("SELECT * FROM rate_limits") == before


async def test_keys_that_a_key_made_share_its_limit(database: Database, tenant: UUID) -> None:
    store, rate = KeyStore(database), 5
    first, others = ids.new(), [ids.new() for _ in range(3)]
    await store.add_key(first, tenant, "first", hash_key("first"), rate_limit=rate, actor="test")
    for number, key in enumerate(others):
        await store.add_key(key, tenant, "made", hash_key(str(number)), rate_limit=rate, makers=[first], actor="test")
    hashes = [hash_key(name) for name in ("first", "0", "1", "2")]
    found = await store.find_keys(hashes)
    limiter, began = RateLimiter(RateLimitStore(database), 0), time.monotonic()
    scopes: list[dict[str, Permit]] = [{} for _ in range(4 * rate)]
    admitted = [limiter.admit(found[hashes[number % 4]], scope) for number, scope in enumerate(scopes)]
    errors = [each for each in await asyncio.gather(*admitted, return_exceptions=True) if each is not None]
    assert {getattr(error, "status", error) for error in errors} == {429}
    assert rate <= len(scopes) - len(errors) <= rate * (1 + time.monotonic() - began) + 1
    assert any("keys exceed their common limit of 5 requests" in getattr(error, "detail", "") for error in errors)


async def test_keys_of_every_generation_share_the_limit_of_each_maker(database: Database, tenant: UUID) -> None:
    """The first one has no limit, and the second one's holds for what it made."""
    store, rate = KeyStore(database), 5
    first, second, others = ids.new(), ids.new(), [ids.new() for _ in range(3)]
    await store.add_key(first, tenant, "first", hash_key("first"), rate_limit=0, actor="test")
    await store.add_key(second, tenant, "second", hash_key("second"), rate_limit=rate, makers=[first], actor="test")
    for number, key in enumerate(others):
        own = key, tenant, "made", hash_key(str(number))
        await store.add_key(*own, rate_limit=rate, makers=[first, second], actor="test")
    hashes = [hash_key(str(number)) for number in range(3)]
    found = await store.find_keys(hashes)
    assert {each.maker_limits for each in found.values()} == {(0, rate)}
    limiter, began = RateLimiter(RateLimitStore(database), 0), time.monotonic()
    admitted = [limiter.admit(found[hashes[number % 3]], {}) for number in range(4 * rate)]
    errors = [each for each in await asyncio.gather(*admitted, return_exceptions=True) if each is not None]
    assert {getattr(error, "status", error) for error in errors} == {429}
    assert rate <= 4 * rate - len(errors) <= rate * (1 + time.monotonic() - began) + 1


async def test_a_key_that_another_one_made_may_have_a_lower_limit(database: Database, tenant: UUID) -> None:
    first, made = Key(ids.new(), tenant, rate_limit=50), ids.new()
    lower = Key(made, tenant, rate_limit=1, makers=(first.id,), maker_limits=(50,))
    for key in (first.id, made):
        await KeyStore(database).add_key(key, tenant, "test", hash_key(str(key)), actor="test")
    scope: dict[str, Permit] = {}
    limiter = RateLimiter(RateLimitStore(database), 0)
    await limiter.admit(lower, scope)
    assert scope[PERMIT].limit == 1
    with pytest.raises(Problem, match="the API key exceeds its limit of 1 "):
        await asyncio.gather(*(limiter.admit(lower, {}) for _ in range(5)))
    await limiter.admit(first, {})
