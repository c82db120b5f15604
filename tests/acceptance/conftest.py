"""One stack for all acceptance tests, traced, with short delays so that faults show soon."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT, Settings
from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.collector import Collector
from tests.acceptance.receiver import Receiver

RECOVERY_RATE = 500  # deliveries a second
ENVIRONMENT = {
    "CHARONIA_DELIVERY_SCHEDULE": "0,0.5,1,0.5,0.5",
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
    argv = [sys.executable, "-m", "services.gateway.keys", "create", "stranger"]
    made = await asyncio.to_thread(
        subprocess.run, argv, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=True, timeout=30
    )
    async with open_client(stack, made.stdout.strip()) as client:
        yield client


@asynccontextmanager
async def open_client(stack: Stack, key: str) -> AsyncIterator[Api]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=10) as http:
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
