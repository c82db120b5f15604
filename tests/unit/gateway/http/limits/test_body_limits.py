"""Limits on all request bodies together."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common import ids
from services.gateway.http import bodies
from services.gateway.http.bodies import read_whole
from services.gateway.http.limits.body_limits import (
    LEASE,
    BodyBudget,
    BodyDeadlines,
    BodyLease,
    BodyLimitsMiddleware,
    find_lease,
)
from services.gateway.http.problems import Problem

TENANT, OTHER = ids.new(), ids.new()


@pytest.fixture
def budget() -> BodyBudget:
    return BodyBudget(100)


def new_lease(budget: BodyBudget, tenant: Any = TENANT) -> BodyLease:
    lease = BodyLease(budget, BodyDeadlines())
    if tenant is not None:
        lease.identify(tenant)
    return lease


def test_a_body_holds_what_has_arrived(budget: BodyBudget) -> None:
    lease = new_lease(budget)
    lease.grow(50)
    lease.grow(20)
    for asking, status in ((lease, 413), (new_lease(budget), 503)):  # never, and not now
        with pytest.raises(Problem) as refused:
            asking.grow(6)
        assert refused.value.status == status
    assert refused.value.headers == {"Retry-After": "5"}
    lease.grow(5)
    lease.resize(30)
    assert budget.free == 70
    lease.release()
    lease.release()
    assert budget.free == 100


@pytest.mark.parametrize("tenant", [TENANT, None])
def test_bodies_of_one_tenant_leave_room_for_others(budget: BodyBudget, tenant: Any) -> None:
    for _ in range(75):
        new_lease(budget, tenant).grow(1)
    with pytest.raises(Problem, match="too many large requests"):
        new_lease(budget, tenant).grow(1)
    new_lease(budget, OTHER).grow(15)


async def test_a_request_releases_its_memory_even_if_it_fails(budget: BodyBudget) -> None:
    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        find_lease(scope).grow(60)
        assert budget.free == 40
        raise RuntimeError

    scope: Any = {}
    none: Any = None
    with pytest.raises(RuntimeError):
        await BodyLimitsMiddleware(app, budget, BodyDeadlines())(scope, none, none)
    assert budget.free == 100


@pytest.mark.parametrize("slow", ["STALL_SECONDS", "BODY_SECONDS"])
async def test_a_body_that_stalls_or_takes_too_long_is_given_up(
    budget: BodyBudget, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    monkeypatch.setattr(bodies, slow, 0.05)

    async def drip() -> AsyncIterator[bytes]:
        yield b"first"
        while slow == "BODY_SECONDS":
            await asyncio.sleep(0.001)
            yield b" "
        await asyncio.Event().wait()

    lease = new_lease(BodyBudget(10**9))
    request = SimpleNamespace(scope={LEASE: lease}, stream=drip)
    with pytest.raises(Problem) as refused:
        await read_whole(cast("Any", request))
    assert (refused.value.status, refused.value.code) == (408, "body_too_slow")
