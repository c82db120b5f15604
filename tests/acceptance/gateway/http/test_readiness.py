"""Readiness names the server of each dependency."""

import httpx

from common.server_urls import split_by_node
from deploy.local.stack import Stack


async def test_each_service_says_which_servers_it_uses(stack: Stack) -> None:
    servers = {"database": stack.postgres.url, "broker": stack.rabbitmq.url}
    nodes = {name: next(iter(split_by_node(url))) for name, url in servers.items()}
    async with httpx.AsyncClient() as http:
        for service in stack.services:
            body = (await http.get(f"{service.url}/readyz")).json()
            assert (body["status"], body["nodes"]) == ("ok", nodes)
            assert set(body["checks"].values()) == {"ok"}
