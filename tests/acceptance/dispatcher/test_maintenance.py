"""One process sweeps for all: a dispatcher, or a process that needs no Triton. Another one takes over."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from deploy.local.servers.postgres import connect_as
from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
TAKEOVER_SECONDS = 15.0  # a lease takes 4
STARTED_SECONDS = 60.0


def build_maintenance(stack: Stack, **environment: str) -> Service:
    """Return a maintenance process that does not know the Triton."""
    inherited = {name: value for name, value in stack.environment.items() if name != "CHARONIA_TRITON_URL"}
    inherited["CHARONIA_DATABASE_URL"] = connect_as("dispatcher", inherited["CHARONIA_DATABASE_URL"])
    port = stack.dispatchers[0].port + 2
    return Service("dispatcher.maintenance", port, inherited | environment, stack.log_dir, name="maintenance")


@pytest.fixture
async def maintenance(breakable: Stack) -> AsyncIterator[Service]:
    """A maintenance process, which the test starts."""
    service = build_maintenance(breakable)
    yield service
    await asyncio.to_thread(service.stop)


@pytest.fixture
async def deaf_leader(breakable: Stack) -> AsyncIterator[Service]:
    """A maintenance process that leads, and reaches PostgreSQL, but not RabbitMQ. No dispatcher runs."""
    await asyncio.to_thread(breakable.dispatchers[0].stop)
    service = build_maintenance(breakable, CHARONIA_AMQP_URL="amqp://127.0.0.1:1/")  # where nothing listens

    async def leads() -> bool:
        with contextlib.suppress(httpx.TransportError):  # it does not listen yet
            return await is_leader(service)
        return False

    service.launch()
    try:
        await eventually(leads, f"{service.name} leads", within=STARTED_SECONDS)
        yield service
    finally:
        await asyncio.to_thread(service.stop)


async def is_leader(service: Service) -> bool:
    return await read_metric(f"{service.url}/metrics", "charonia_leader", role="maintenance") == 1


async def is_candidate(service: Service) -> bool:
    return not await is_leader(service)


async def counts_jobs(service: Service) -> bool:
    """Return whether a process shows database metrics."""
    async with httpx.AsyncClient(timeout=STARTED_SECONDS) as http:
        return "charonia_jobs{" in (await http.get(f"{service.url}/metrics")).text


async def wait_for_leader(service: Service) -> None:
    await eventually(lambda: is_leader(service), f"{service.name} leads", within=TAKEOVER_SECONDS)


async def wait_for_counts(service: Service) -> None:
    await eventually(lambda: counts_jobs(service), f"{service.name} counts")


async def test_a_leader_without_a_broker_holds_up_no_job(breakable: Stack, deaf_leader: Service, api: Api) -> None:
    """It makes due jobs claimable, but cannot tell a dispatcher. So a dispatcher becomes the leader."""
    (dispatcher,) = breakable.dispatchers
    await asyncio.to_thread(dispatcher.start)
    due = datetime.now(UTC) + timedelta(seconds=1)
    jobs = [await api.submit("echo", ECHO, run_at=due.isoformat()) for _ in range(3)]
    assert [(await api.wait(job.id)).status for job in jobs] == ["succeeded"] * 3
    await wait_for_leader(dispatcher)
    await eventually(lambda: is_candidate(deaf_leader), f"{deaf_leader.name} does not lead any more")


async def test_another_process_takes_over_from_a_frozen_leader_and_expires_jobs(
    breakable: Stack, maintenance: Service, api: Api
) -> None:
    (dispatcher,) = breakable.dispatchers
    await wait_for_leader(dispatcher)
    await wait_for_counts(dispatcher)
    await asyncio.to_thread(maintenance.start)
    assert not (await is_leader(maintenance) and await is_leader(dispatcher))
    await asyncio.to_thread(dispatcher.freeze)
    try:
        await wait_for_leader(maintenance)
    finally:
        await asyncio.to_thread(dispatcher.thaw)
    await wait_for_counts(maintenance)

    async def has_lost() -> bool:
        return await is_candidate(dispatcher) and not await counts_jobs(dispatcher)

    await eventually(has_lost, f"{dispatcher.name} knows that it does not lead any more")
    assert await is_leader(maintenance)

    await asyncio.to_thread(dispatcher.stop)
    job = await api.submit("echo", ECHO, expires_in=1)
    assert (await api.wait(job.id)).status == "expired"
    assert await asyncio.to_thread(maintenance.stop) == 0
    await asyncio.to_thread(dispatcher.start)
    await wait_for_leader(dispatcher)
