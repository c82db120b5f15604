"""Readiness: the state of each dependency, and its server."""

import pytest

from common.http.health import Check, ReadinessView, check_health


async def answer() -> bool:
    return True


async def fail() -> bool:
    return False


@pytest.mark.parametrize(
    ("broker", "optional", "ready", "status"),
    [(answer, (), True, "ok"), (fail, ("broker",), True, "degraded"), (fail, (), False, "down")],
)
async def test_each_dependency_has_its_state_and_its_node(
    broker: Check, optional: tuple[str, ...], ready: bool, status: str
) -> None:
    checks = {"database": answer, "broker": broker, "triton": answer}
    nodes = {"database": lambda: "pg:5432", "broker": lambda: "mq:5672"}
    found, view = await check_health(checks, nodes, optional)
    is_up = broker is answer
    states = {"database": "ok", "broker": "ok" if is_up else "down", "triton": "ok"}
    assert (found, view.status, view.checks) == (ready, status, states)
    assert view.nodes == {"database": "pg:5432", "broker": "mq:5672" if is_up else None}


async def test_nodes_may_be_left_out() -> None:
    assert await check_health({"database": answer}) == (True, ReadinessView("ok", {"database": "ok"}, {}))
