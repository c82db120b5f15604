"""Readiness has the state of each dependency."""

import asyncio
from typing import Any

import httpx

from common.server_urls import split_by_node
from deploy.local.processes.ports import HOST, free_ports
from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.waiting import eventually


async def test_each_service_but_a_gateway_says_which_servers_it_uses(stack: Stack) -> None:
    servers = {"database": stack.postgres.url, "broker": stack.rabbitmq.url}
    nodes = {name: next(iter(split_by_node(url))) for name, url in servers.items()}
    async with httpx.AsyncClient(timeout=30) as http:
        for service in stack.services:

            async def find_healthy(url: str = f"{service.url}/readyz") -> dict[str, Any] | None:
                body: dict[str, Any] = (await http.get(url)).json()
                return body if set(body["checks"].values()) == {"ok"} else None

            body = await eventually(find_healthy, f"{service.name} has all that it needs")
            assert body["status"] == "ok"
            assert body.get("nodes") == (None if service in stack.gateways else nodes)


async def test_metrics_may_have_a_port_of_their_own(stack: Stack) -> None:
    port, metrics = free_ports(2)
    environment = stack.environment | {"CHARONIA_METRICS_PORT": str(metrics)}
    gateway = Service("gateway", port, environment, stack.log_dir, name="gateway-metrics")
    try:
        await asyncio.to_thread(gateway.start)
        async with httpx.AsyncClient(timeout=30) as http:
            assert (await http.get(f"{gateway.url}/metrics")).status_code == 404
            found = await http.get(f"http://{HOST}:{metrics}/metrics")
        assert (found.status_code, "charonia_queues_consumed" in found.text) == (200, True)
    finally:
        assert await asyncio.to_thread(gateway.stop) == 0
