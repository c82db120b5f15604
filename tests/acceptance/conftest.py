"""One traced stack for all acceptance tests, with short delays so that faults show soon."""

import asyncio
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace

import httpx
import pytest

from deploy.local.errors import NotReady, ProcessDied
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.database.checks import add_checks
from tests.support.failure_report import describe_trouble
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.broker_connection import wait_for_broker
from tests.support.stacks.key_command import make_key
from tests.support.telemetry.otlp_collector import Collector

SUPERVISION_SECONDS = 0.2
WHOLE = threading.Lock()  # held while a test breaks the shared stack
RECOVERY_RATE = 200  # deliveries a second
ENVIRONMENT = {
    "CHARONIA_INPUT_NETWORKS": "127.0.0.0/8,::1/128",  # for servers of tests; by default, inputs come from the internet
    "CHARONIA_DELIVERY_SCHEDULE": "0,0.5,1,0.5,0.5",
    "CHARONIA_LOG_FORMAT": "json",
    "CHARONIA_LEASE": "4",  # longer than a restart of PostgreSQL takes
    "CHARONIA_RECOVERY_RATE": f"{RECOVERY_RATE}",
    "OTEL_BSP_SCHEDULE_DELAY": "200",  # ms
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what its stacks warned about: on a CI machine nobody can look at its logs afterwards."""
    report = yield
    if report.failed:
        for stack in {each for each in item.funcargs.values() if isinstance(each, Stack)}:
            report.sections.append((f"trouble in the stack of {stack.url}", "\n".join(describe_trouble(stack))))
    return report


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="package")  # it ends before the other tests begin: at rest it takes 7 % of a core
def stack(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Stack]:
    """The shared stack. A test that breaks part of it uses `breakable` instead."""
    settings = Settings.private(tmp_path_factory.mktemp("stack"))
    models = settings.stack_dir / "more_models"  # those that some tests add
    models.mkdir()
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url} | ENVIRONMENT
    stack = Stack(replace(settings, environment=environment, model_control="explicit", models=models))
    try:
        with stack:
            asyncio.run(add_checks(stack.postgres.url))
            wait_for_broker(*stack.gateways)
            with keep_triton_running(stack, WHOLE):
                yield stack
    finally:
        stack.postgres.delete()


@contextmanager
def keep_triton_running(stack: Stack, whole: threading.Lock) -> Iterator[None]:
    """Start Triton again if it ends while nobody else holds the lock.

    It may crash if a cancellation races with the end of an inference: see docs/how-to/bring-your-own-model.md.
    """
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(SUPERVISION_SECONDS):
            with whole, suppress(ProcessDied, NotReady):  # a poison job may be sent before all models are loaded
                if not stack.triton.process.running:
                    stack.triton.start()

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()


@pytest.fixture
async def breakable(stack: Stack) -> AsyncIterator[Stack]:
    """The shared stack for a test that breaks it: healthy before the test, and restored after it."""
    await asyncio.to_thread(WHOLE.acquire)
    try:
        await asyncio.to_thread(restore_stack, stack)
        yield stack
        await asyncio.to_thread(restore_stack, stack)
    finally:
        WHOLE.release()


@pytest.fixture
def supervised(breakable: Stack) -> Iterator[Stack]:
    """The shared stack, in which Triton is started again if it ends by itself: a fault or a reload may crash it."""
    with keep_triton_running(breakable, threading.Lock()):
        yield breakable


def restore_stack(stack: Stack) -> None:
    """Start every process that is not running, and wait until all of them are ready."""
    for member in (*stack.servers, *stack.services):
        if not member.process.running:
            member.launch()
    for member in (*stack.servers, *stack.services):
        member.wait_ready()
    wait_for_broker(*stack.gateways)


@pytest.fixture(scope="package")
async def api(stack: Stack) -> AsyncIterator[Api]:
    """A client of the tenant "default"."""
    async with open_client(stack, DEVELOPMENT_KEY) as client:
        yield client


@pytest.fixture(scope="package")
async def other_tenant(stack: Stack) -> AsyncIterator[Api]:
    """A client of another tenant."""
    async with open_client(stack, await make_key(stack, "other-tenant")) as client:
        yield client


@pytest.fixture(scope="package")
async def gateways(stack: Stack) -> AsyncIterator[list[str]]:
    """The URLs of two gateways: the stack's own, and a second one started for these tests."""
    port = stack.settings.gateway_port + 1
    second = Service("gateway", port, stack.environment, stack.log_dir, name="gateway-2")
    try:
        await asyncio.to_thread(second.start)
        await asyncio.to_thread(wait_for_broker, second)
        yield [stack.url, second.url]
    finally:
        await asyncio.to_thread(second.stop)


@asynccontextmanager
async def open_client(stack: Stack, key: str, url: str = "") -> AsyncIterator[Api]:
    """Open a client with this key. Without `url` it calls the stack's own gateway."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url or stack.url, headers=headers, timeout=45) as http:
        yield Api(http)


@pytest.fixture
def own_receiver() -> Iterator[Receiver]:
    """A receiver for one test only. Callbacks to it have an endpoint, and a health, of their own."""
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
