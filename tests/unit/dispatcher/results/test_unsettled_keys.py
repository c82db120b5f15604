"""Keys are settled in their order, each once, and never more than there is room for."""

import asyncio

import pytest

from common import ids
from common.reuse.key import ReuseKey
from services.dispatcher.results import unsettled_keys
from services.dispatcher.results.unsettled_keys import UnsettledKeys

TENANT = ids.new()
FIRST, SECOND, THIRD = (ReuseKey(TENANT, bytes([number])) for number in range(3))


async def test_keys_are_taken_in_their_order_and_once() -> None:
    keys = UnsettledKeys()
    keys.note([FIRST, None, SECOND, FIRST])
    assert await keys.take(1) == [FIRST]
    assert await keys.take(9) == [SECOND]
    waiting = asyncio.create_task(keys.take(9))
    await asyncio.sleep(0)
    assert not waiting.done()
    keys.note([FIRST])
    assert await waiting == [FIRST]


async def test_those_beyond_the_limit_are_left_to_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsettled_keys, "TENANT_LIMIT", 2)
    keys = UnsettledKeys()
    keys.note([FIRST, SECOND, THIRD])
    assert await keys.take(9) == [FIRST, SECOND]
    keys.note([THIRD])
    assert await keys.take(9) == [THIRD]


async def test_tenants_take_turns() -> None:
    other = ReuseKey(ids.new(), b"o")
    keys = UnsettledKeys()
    keys.note([FIRST, SECOND, THIRD, other])
    assert await keys.take(2) == [FIRST, other]
    keys.note([other])
    assert await keys.take(9) == [SECOND, other, THIRD]


async def test_all_tenants_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsettled_keys, "LIMIT", 1)
    keys = UnsettledKeys()
    keys.note([FIRST, ReuseKey(ids.new(), b"o")])
    assert await keys.take(9) == [FIRST]
    keys.note([SECOND])
    assert await keys.take(9) == [SECOND]
