"""A real Prometheus on the real stack: what rules and dashboards ask for is there, and stays bounded."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.metrics import read_metric
from tests.acceptance.prometheus import Prometheus
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import fault
from tests.acceptance.waiting import eventually
from tests.monitoring import DASHBOARDS, list_alerts, list_metrics, list_queries

ECHO = {"x": [[1.0]]}
OF_A_CLIENT = re.compile(r"[a-z]{3}_[0-9a-z]{26}|[0-9a-f]{8}-[0-9a-f]{4}-|://|/v9|PROPFIND|default")
WITHIN = 60.0  # seconds; the census counts every 10


@pytest.fixture(scope="module")
async def prometheus(
    stack: Stack, api: Api, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prometheus]:
    """One that has seen a job that succeeded, its webhook, and a job that failed."""
    await api.wait_for_webhooks((await api.run("echo", ECHO, webhook={"url": receiver.inbox().url})).id)
    assert (await api.run("faulty", fault("invalid"))).status == "failed"
    async with httpx.AsyncClient() as http:
        server = Prometheus(tmp_path_factory.mktemp("prometheus"), stack.services, http)
        try:
            await asyncio.to_thread(server.start)
            yield server
        finally:
            await asyncio.to_thread(server.kill)


async def test_every_metric_of_a_rule_or_a_dashboard_exists(prometheus: Prometheus) -> None:
    expressions = [rule["expr"] for rule in list_alerts()] + [
        each for file in DASHBOARDS for each in list_queries(file)
    ]
    wanted = {metric for expression in expressions for metric in list_metrics(expression)}
    missing = wanted

    async def look() -> bool:
        nonlocal missing
        missing = wanted - set(await prometheus.ask("label/__name__/values"))
        return not missing

    try:
        await eventually(look, "all metrics are scraped", WITHIN)
    finally:
        assert missing == set()


async def test_every_query_of_a_dashboard_parses(prometheus: Prometheus) -> None:
    for query in [each for file in DASHBOARDS for each in list_queries(file)]:
        await prometheus.ask("query", query=query)


async def test_every_rule_is_evaluated(prometheus: Prometheus) -> None:
    async def look() -> list[dict[str, str]] | None:
        rules = [rule for group in (await prometheus.ask("rules"))["groups"] for rule in group["rules"]]
        return None if any(rule["health"] == "unknown" for rule in rules) else rules

    rules = await eventually(look, "all rules are evaluated", WITHIN)
    assert {rule["name"]: rule.get("lastError") for rule in rules} == {rule["alert"]: None for rule in list_alerts()}


async def test_no_label_is_of_a_client(stack: Stack, api: Api, prometheus: Prometheus) -> None:
    """No id, URL, path or method as it came; after requests, jobs and webhooks with all of these."""
    metrics = f"{stack.url}/metrics"
    before = await read_metric(metrics, "charonia_http_requests_total", route="unmatched")
    for number in range(5):
        assert (await api.http.get(f"/v9/{number}")).status_code == 404
    assert (await api.http.request("PROPFIND", "/v1/jobs")).status_code == 405
    assert await read_metric(metrics, "charonia_http_requests_total", route="unmatched") >= before + 5
    for service in stack.services:
        samples = (await api.http.get(f"{service.url}/metrics")).text
        assert "charonia_" in samples
        assert OF_A_CLIENT.findall(samples) == []
