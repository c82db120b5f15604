"""One stack for all acceptance tests, traced, with short delays so that faults show soon."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.collector import Collector
from tests.acceptance.keys import make_key
from tests.acceptance.receiver import Receiver

RECOVERY_RATE = 500  # deliveries a second
ENVIRONMENT = {
    "CHARONIA_DELIVERY_SCHEDULE": "0,0.5,1,0.5,0.5",
    "CHARONIA_LOG_FORMAT": "json",
    "CHARONIA_LEASE": "4",  # more than a restart of PostgreSQL takes
    "CHARONIA_RECOVERY_RATE": f"{RECOVERY_RATE}",
    "OTEL_BSP_SCHEDULE_DELAY": "200",  # ms
}


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Stack]:
    """Shared: a test that breaks a part of it asks for `breakable` instead."""
    settings = Settings.private(tmp_path_factory.mktemp("stack"))
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url} | ENVIRONMENT
    stack = Stack(replace(settings, environment=environment, model_control="explicit"))
    try:
        with stack:
            yield stack
    finally:
        stack.postgres.delete()


@pytest.fixture
async def breakable(stack: Stack) -> AsyncIterator[Stack]:
    """The stack, healthy before the test and again after it, whatever the test does to it."""
    await asyncio.to_thread(heal, stack)
    yield stack
    await asyncio.to_thread(heal, stack)


def heal(stack: Stack) -> None:
    """Starts what does not run and waits until everything serves."""
    for member in (*stack.servers, *stack.services):
        if not member.process.running:
            member.launch()
    for member in (*stack.servers, *stack.services):
        member.wait_ready()


@pytest.fixture(scope="session")
async def api(stack: Stack) -> AsyncIterator[Api]:
    """A client of the tenant "default"."""
    async with open_client(stack, DEVELOPMENT_KEY) as client:
        yield client


@pytest.fixture(scope="session")
async def stranger(stack: Stack) -> AsyncIterator[Api]:
    """A client of another tenant."""
    async with open_client(stack, await make_key(stack, "stranger")) as client:
        yield client


@pytest.fixture(scope="session")
async def gateways(stack: Stack) -> AsyncIterator[list[str]]:
    """The URLs of two gateways of the stack: its own, and another that is started for the tests that want it."""
    port = stack.settings.gateway_port + 1
    second = Service("gateway", port, stack.environment, stack.log_dir, name="gateway-2")
    try:
        await asyncio.to_thread(second.start)
        yield [stack.url, second.url]
    finally:
        await asyncio.to_thread(second.stop)


@asynccontextmanager
async def open_client(stack: Stack, key: str, url: str = "") -> AsyncIterator[Api]:
    """A client with that key, of the stack's own gateway where no other's URL is given."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url or stack.url, headers=headers, timeout=10) as http:
        yield Api(http)


@pytest.fixture
def own_receiver() -> Iterator[Receiver]:
    """A receiver of one test's own: callbacks to it are an endpoint of their own, whose health nobody shares."""
    receiver = Receiver()
    receiver.open()
    yield receiver
    receiver.close()


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.open()
    yield receiver
    receiver.close()
