"""Readiness: the state of each dependency."""

import pytest

from common.http.health import Check, check_health


async def answer() -> bool:
    return True


async def fail() -> bool:
    return False


@pytest.mark.parametrize(
    ("broker", "optional", "ready", "status"),
    [(answer, (), True, "ok"), (fail, ("broker",), True, "degraded"), (fail, (), False, "down")],
)
async def test_each_dependency_has_its_state(
    broker: Check, optional: tuple[str, ...], ready: bool, status: str
) -> None:
    checks = {"database": answer, "broker": broker, "triton": answer}
    found, view = await check_health(checks, optional)
    states = {"database": "ok", "broker": "ok" if broker is answer else "down", "triton": "ok"}
    assert (found, view.status, view.checks) == (ready, status, states)
