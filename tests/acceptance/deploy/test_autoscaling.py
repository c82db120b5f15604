"""Dispatchers go from 0 to 3 and back, by the query of the chart, which a real Prometheus evaluates."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from deploy.local.processes.ports import free_ports
from deploy.local.servers.postgres import connect_as
from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.batches import submit_batch
from tests.support.api.model_inputs import tokens, work
from tests.support.cluster.autoscaler import Autoscaler
from tests.support.cluster.kubernetes_api import KubernetesApi
from tests.support.cluster.pool import Pool
from tests.support.cluster.scaled_object import NAMESPACE, make_pool, render_scaled_objects
from tests.support.stacks.example_tenant import stop_waiting
from tests.support.telemetry.prometheus import Prometheus
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

SLOTS = 2
MAX_PODS = 3
POLL_SECONDS = 0.5
WITHIN = 90.0  # seconds
JOBS = 120
JOB_MS = 300
DRAINED_MS = 7000
LONG = {"model": "tokens", "inputs": tokens(["word"] * 600, 200)}  # until it is canceled
EXECUTIONS = "work_requests_total"  # the model's own count
MODELS = ["work", "tok*"]
COOLDOWN_SECONDS = 3


@pytest.fixture
async def scheduled(breakable: Stack, api: Api) -> AsyncIterator[Job]:
    """A job for later. All jobs are canceled at the end: what a failed test leaves would hold a model."""
    yield await api.submit("work", work(1), run_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    await stop_waiting(api)


@pytest.fixture
async def maintenance(breakable: Stack, scheduled: Job) -> AsyncIterator[Service]:
    """The process that counts jobs while no dispatcher runs."""
    own, (port,) = breakable.dispatchers[0], free_ports(1)
    await asyncio.to_thread(own.stop)
    database = connect_as("dispatcher", breakable.environment["CHARONIA_DATABASE_URL"])
    environment = breakable.environment | {"CHARONIA_DATABASE_URL": database}
    service = Service("dispatcher.maintenance", port, environment, breakable.log_dir, name="maintenance")
    try:
        await asyncio.to_thread(service.start)
        yield service
    finally:
        await asyncio.to_thread(service.stop)


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[KubernetesApi]:
    api = KubernetesApi(tmp_path)
    yield api
    api.close()


@pytest.fixture
async def pool(breakable: Stack, kubernetes: KubernetesApi) -> AsyncIterator[Pool]:
    own = {"CHARONIA_MODELS": ",".join(MODELS), "CHARONIA_SLOTS": str(SLOTS)}
    own["CHARONIA_LEASE"] = "60"  # a pod that is not scheduled for some seconds loses no job
    environment = breakable.environment | own
    pool = Pool(environment, free_ports(MAX_PODS), breakable.log_dir, kubernetes)
    yield pool
    await pool.close()


@pytest.fixture
async def prometheus(breakable: Stack, maintenance: Service, pool: Pool, tmp_path: Path) -> AsyncIterator[Prometheus]:
    async with httpx.AsyncClient(timeout=WITHIN) as http:
        services = [*breakable.gateways, *breakable.notifiers, maintenance, *pool.services]  # any may count the jobs
        server = Prometheus(tmp_path, services, http, labels={"namespace": NAMESPACE})
        try:
            await asyncio.to_thread(server.start)
            yield server
        finally:
            await asyncio.to_thread(server.kill)


class Run:
    """The autoscaler at work."""

    def __init__(self, autoscaler: Autoscaler, pool: Pool, prometheus: Prometheus) -> None:
        self._autoscaler = autoscaler
        self._pool = pool
        self._prometheus = prometheus

    async def until(self, wanted: int) -> None:
        """Follow the decisions until one is this number of pods. Return before it is carried out."""
        deadline = time.monotonic() + WITHIN
        while (pods := await self.decide()) != wanted:
            await self._pool.scale(pods)
            assert time.monotonic() < deadline, f"{wanted} pods are not reached: {self._pool.sizes}"
            await asyncio.sleep(POLL_SECONDS)

    async def decide(self) -> int:
        return self._autoscaler.decide(await self.ask(), len(self._pool.pods), time.monotonic())

    async def ask(self) -> list[dict[str, list[str]]]:
        answer = await self._prometheus.query("query", query=self._autoscaler.trigger["query"])
        assert answer["resultType"] == "vector"
        result: list[dict[str, list[str]]] = answer["result"]
        return result


async def test_pods_follow_the_jobs_from_zero_to_three_and_back(
    breakable: Stack, api: Api, scheduled: Job, pool: Pool, prometheus: Prometheus
) -> None:
    (scaled,) = render_scaled_objects(
        make_pool("work", MODELS, slots=SLOTS, maxReplicas=MAX_PODS, cooldownSeconds=COOLDOWN_SECONDS)
    )
    run = Run(Autoscaler(scaled["spec"]), pool, prometheus)
    await eventually(lambda: has_value(run, "0"), "somebody counts the jobs, and the one for later is none", WITHIN)
    assert await run.decide() == 0
    executions = await read_metric(breakable.triton.metrics_url, EXECUTIONS)

    began, started = time.monotonic(), datetime.now(UTC)
    await submit_batch(api, [LONG, *[{"model": "work", "inputs": work(JOB_MS)}] * JOBS])
    await run.until(1)
    first_pod = time.monotonic() - began
    await run.until(MAX_PODS)
    await run.until(1)
    await pool.scale(1)
    (long,) = await api.list_all_jobs(status="processing")
    assert long.model == "tokens"  # the two pods that it did not run in were removed
    await api.http.post(f"/v1/jobs/{long.id}/cancel")
    await run.until(0)
    drained = await api.submit("work", work(DRAINED_MS))  # not counted yet
    await api.wait(drained.id, "processing")
    await pool.scale(0)
    assert await pool.wait_stopped() == [0] * MAX_PODS

    ended = await api.list_all_jobs(created_after=started.isoformat())
    assert Counter((job.model, job.status, job.attempt) for job in ended) == {
        ("work", "succeeded", 1): JOBS + 1,
        ("tokens", "canceled", 1): 1,
    }
    assert {len(await api.list_attempts(job.id)) for job in ended} == {1}
    assert await read_metric(breakable.triton.metrics_url, EXECUTIONS) - executions == JOBS + 1
    assert (pool.sizes[0], max(pool.sizes), pool.sizes[-2:]) == (1, MAX_PODS, [1, 0])
    assert all(removal.cost <= min(removal.others, default=removal.cost) for removal in pool.removals)
    assert (await api.get(scheduled.id)).status == "queued"
    print(f"first pod after {first_pod:.1f} s, {time.monotonic() - began:.1f} s in all")


async def has_value(run: Run, value: str) -> bool:
    answer = await run.ask()
    return bool(answer) and answer[0]["value"][1] == value
