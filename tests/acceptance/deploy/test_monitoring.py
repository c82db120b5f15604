"""A real Prometheus scrapes the real stack. Rules and dashboards find their metrics, and labels stay bounded."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import fault
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.telemetry.monitoring_files import DASHBOARDS, list_alerts, list_metrics, list_queries
from tests.support.telemetry.prometheus import Prometheus
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
CLIENT_DATA = re.compile(r"[a-z]{3}_[0-9a-z]{26}|[0-9a-f]{8}-[0-9a-f]{4}-|://|/v9|PROPFIND|default")
WITHIN = 60.0  # seconds; database metrics are collected every 10 s
CALL_SECONDS = 30.0
# Only a dispatcher that decides what Triton holds has it: tests/unit/dispatcher/residency/test_metrics.py.
OFF_BY_DEFAULT = {"charonia_model_load_failing"}


@pytest.fixture(scope="module")
async def prometheus(
    stack: Stack, api: Api, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prometheus]:
    """A Prometheus that has seen one succeeded job, its webhook, and one failed job."""
    await api.wait_for_webhooks((await api.run("echo", ECHO, webhook={"url": receiver.inbox().url})).id)
    assert (await api.run("faulty", fault("invalid"))).status == "failed"
    async with httpx.AsyncClient(timeout=CALL_SECONDS) as http:
        server = Prometheus(tmp_path_factory.mktemp("prometheus"), stack.services, http)
        try:
            await asyncio.to_thread(server.start)
            yield server
        finally:
            await asyncio.to_thread(server.kill)


async def test_every_metric_in_rules_and_dashboards_exists(prometheus: Prometheus) -> None:
    expressions = [rule["expr"] for rule in list_alerts()] + [
        each for file in DASHBOARDS for each in list_queries(file)
    ]
    used = {metric for expression in expressions for metric in list_metrics(expression)} - OFF_BY_DEFAULT
    missing = used

    async def poll() -> bool:
        nonlocal missing
        missing = used - set(await prometheus.query("label/__name__/values"))
        return not missing

    try:
        await eventually(poll, "all metrics are scraped", WITHIN)
    finally:
        assert missing == set()


async def test_every_dashboard_query_parses(prometheus: Prometheus) -> None:
    for query in [each for file in DASHBOARDS for each in list_queries(file)]:
        await prometheus.query("query", query=query)


async def test_every_rule_evaluates_without_errors(prometheus: Prometheus) -> None:
    async def poll() -> list[dict[str, str]] | None:
        rules = [rule for group in (await prometheus.query("rules"))["groups"] for rule in group["rules"]]
        return None if any(rule["health"] == "unknown" for rule in rules) else rules

    rules = await eventually(poll, "all rules are evaluated", WITHIN)
    assert {rule["name"]: rule.get("lastError") for rule in rules} == {rule["alert"]: None for rule in list_alerts()}


async def test_no_label_contains_client_data(stack: Stack, api: Api, prometheus: Prometheus) -> None:
    """Labels contain no id, URL, path or method from a client, even after requests that contain them."""
    metrics = f"{stack.url}/metrics"
    before = await read_metric(metrics, "charonia_http_requests_total", route="unmatched")
    for number in range(5):
        assert (await api.http.get(f"/v9/{number}")).status_code == 404
    assert (await api.http.request("PROPFIND", "/v1/jobs")).status_code == 405
    await wait_for_metric(metrics, "charonia_http_requests_total", before + 5, route="unmatched")
    for service in stack.services:
        samples = (await api.http.get(f"{service.url}/metrics")).text
        assert "charonia_" in samples
        assert CLIENT_DATA.findall(samples) == []
