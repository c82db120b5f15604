"""The trace collector may hang. No job fails because of it, and one log line reports it."""

import threading
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from deploy.local.processes.ports import HOST, free_ports
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.receivers.threaded_server import Listener, ReceivedRequest
from tests.support.stacks.own_gateway import another_gateway
from tests.support.telemetry.service_logs import count_events, wait_for_event

SPANS_LOST = "tracing.spans_lost"
JOBS = 10  # their spans, three each, exceed the queue
SMALL = {
    "OTEL_BSP_MAX_QUEUE_SIZE": "16",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8",
    "OTEL_BSP_SCHEDULE_DELAY": "50",  # ms
    "OTEL_EXPORTER_OTLP_TIMEOUT": "60",  # seconds
}


class HangingCollector:
    """Accepts requests and does not answer until it is closed."""

    def __init__(self) -> None:
        self.received = 0
        self.closing = threading.Event()
        (port,) = free_ports(1)
        self.url = f"http://{HOST}:{port}"
        self.listener = Listener(self.receive, port)

    def receive(self, _request: ReceivedRequest) -> int:
        self.received += 1
        self.closing.wait()
        return HTTPStatus.SERVICE_UNAVAILABLE

    def close(self) -> None:
        self.closing.set()
        self.listener.close()


@pytest.fixture
def hanging() -> Iterator[HangingCollector]:
    collector = HangingCollector()
    yield collector
    collector.close()


async def test_hanging_collector_fails_no_job_and_does_not_delay_shutdown(
    stack: Stack, hanging: HangingCollector
) -> None:
    variables = SMALL | {"OTEL_EXPORTER_OTLP_ENDPOINT": hanging.url}
    async with another_gateway(stack, **variables) as gateway:
        before = count_events(gateway, SPANS_LOST)
        await run_jobs(stack, gateway)
        await wait_for_event(gateway, SPANS_LOST, before)
        await run_jobs(stack, gateway)
        assert count_events(gateway, SPANS_LOST) == before + 1
    assert hanging.received == 1
    assert gateway.process.returncode == 0  # otherwise it did not stop in time and was killed


async def run_jobs(stack: Stack, gateway: Service) -> None:
    async with open_client(stack, DEVELOPMENT_KEY, gateway.url) as http:
        jobs = [await http.submit("echo", {"x": [[1.0]]}) for _ in range(JOBS)]
        assert {(await wait(http, job.id)) for job in jobs} == {"succeeded"}


async def wait(api: Api, job_id: str) -> str:
    return (await api.wait(job_id)).status
