"""Readiness names the server of each dependency."""

from typing import Any

import httpx

from common.server_urls import split_by_node
from deploy.local.stack import Stack
from tests.support.waiting import eventually


async def test_each_service_says_which_servers_it_uses(stack: Stack) -> None:
    servers = {"database": stack.postgres.url, "broker": stack.rabbitmq.url}
    nodes = {name: next(iter(split_by_node(url))) for name, url in servers.items()}
    async with httpx.AsyncClient(timeout=30) as http:
        for service in stack.services:

            async def find_healthy(url: str = f"{service.url}/readyz") -> dict[str, Any] | None:
                body: dict[str, Any] = (await http.get(url)).json()
                return body if set(body["checks"].values()) == {"ok"} else None

            body = await eventually(find_healthy, f"{service.name} has all that it needs")
            assert (body["status"], body["nodes"]) == ("ok", nodes)
