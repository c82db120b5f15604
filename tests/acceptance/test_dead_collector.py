"""A collector of traces may be away, or hang: no job notices, and it is told once."""

import threading
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from deploy.local.ports import HOST, free_ports
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.conftest import open_client
from tests.acceptance.listening import Listener, Received
from tests.acceptance.logs import count_events, wait_for_event
from tests.acceptance.serving import another_gateway
from tests.acceptance.waiting import eventually

LOST = "tracing.spans_lost"
JOBS = 10  # more than the queue has room for, three spans each
SMALL = {
    "OTEL_BSP_MAX_QUEUE_SIZE": "16",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8",
    "OTEL_BSP_SCHEDULE_DELAY": "50",  # ms
    "OTEL_EXPORTER_OTLP_TIMEOUT": "1",  # seconds
}


class Hanging:
    """Takes what comes and never answers, until it is closed."""

    def __init__(self) -> None:
        self.taken = 0
        self.closing = threading.Event()
        (port,) = free_ports(1)
        self.url = f"http://{HOST}:{port}"
        self.listener = Listener(self.take, port)

    def take(self, _request: Received) -> int:
        self.taken += 1
        self.closing.wait()
        return HTTPStatus.SERVICE_UNAVAILABLE

    def close(self) -> None:
        self.closing.set()
        self.listener.close()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    collector = Hanging()
    yield collector
    collector.close()


async def test_a_collector_that_is_away_costs_no_job_and_gets_what_comes_once_it_is_back(stack: Stack) -> None:
    (port,) = free_ports(1)
    came: list[Received] = []

    def take(request: Received) -> int:
        came.append(request)
        return HTTPStatus.OK

    async with another_gateway(stack, **SMALL, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{HOST}:{port}") as gateway:
        told = count_events(gateway, LOST)
        await run_jobs(stack, gateway)
        await wait_for_event(gateway, LOST, told)
        await run_jobs(stack, gateway)
        listener = Listener(take, port)
        try:

            async def look() -> bool:
                await run_jobs(stack, gateway)
                return bool(came)

            await eventually(look, "spans come")
        finally:
            listener.close()
        assert count_events(gateway, LOST) == told + 1


async def test_a_collector_that_hangs_costs_no_job_and_holds_up_no_end(stack: Stack, hanging: Hanging) -> None:
    variables = SMALL | {"OTEL_EXPORTER_OTLP_TIMEOUT": "60", "OTEL_EXPORTER_OTLP_ENDPOINT": hanging.url}
    async with another_gateway(stack, **variables) as gateway:
        told = count_events(gateway, LOST)
        await run_jobs(stack, gateway)
        await wait_for_event(gateway, LOST, told)
        await run_jobs(stack, gateway)
        assert count_events(gateway, LOST) == told + 1
    assert hanging.taken == 1
    assert gateway.process.returncode == 0  # else it did not end in time, and was killed


async def run_jobs(stack: Stack, gateway: Service) -> None:
    async with open_client(stack, DEVELOPMENT_KEY, gateway.url) as http:
        jobs = [await http.submit("echo", {"x": [[1.0]]}) for _ in range(JOBS)]
        assert {(await wait(http, job.id)) for job in jobs} == {"succeeded"}


async def wait(api: Api, job_id: str) -> str:
    return (await api.wait(job_id)).status
