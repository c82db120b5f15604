"""Idle streams get heartbeats. Slow clients hold no more than one place, and not for long."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from deploy.local.processes.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, Jobs, read
from tests.support.api.model_inputs import work
from tests.support.stacks.own_gateway import another_gateway
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.telemetry.service_logs import count_events, wait_for_event
from tests.support.waiting import eventually

KEY = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
LARGE_WORDS = [f"{number}".rjust(30_000, "x") for number in range(400)]  # more than the kernels of both ends buffer
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture(scope="module")
async def impatient_gateway(stack: Stack) -> AsyncIterator[Service]:
    """A gateway with short heartbeats, a short send timeout, and a budget for one large body."""
    async with another_gateway(
        stack, CHARONIA_HEARTBEAT="0.1", CHARONIA_SEND_TIMEOUT="4", CHARONIA_MAX_BODIES_BYTES="65536"
    ) as other:
        yield other


@pytest.fixture(scope="module")
async def large_job(api: Api) -> Job:
    """A job with a large history."""
    return await api.run("tokens", {"text": [" ".join(LARGE_WORDS)], "delay_ms": [0]})


async def test_idle_stream_sends_heartbeats(impatient_gateway: Service, api: Api) -> None:
    submitted = await api.submit("work", work(60_000))
    path, headers = f"/v1/jobs/{submitted.id}/events", KEY | {"Accept": "text/event-stream"}
    async with (
        httpx.AsyncClient(base_url=impatient_gateway.url, timeout=20) as http,
        http.stream("GET", path, headers=headers) as response,
    ):
        lines = response.aiter_lines()
        assert [await anext(lines) for _ in range(3)] == [":", "retry: 1000", "id: 0.0"]
        comments = 0
        async for line in lines:
            comments += line == ":"
            if comments == 3:
                read(await api.http.post(f"/v1/jobs/{submitted.id}/cancel"), 202, Job)
                break
        events = [line async for line in lines if line.startswith("event: ")]
    assert events[-1] == "event: job.canceled"


@pytest.mark.parametrize("upgrade", [{}, UPGRADE], ids=["stream", "websocket"])
async def test_client_that_does_not_read_is_disconnected(
    impatient_gateway: Service, large_job: Job, upgrade: dict[str, str]
) -> None:
    """The client keeps its connection open, and the gateway closes it."""
    metrics = f"{impatient_gateway.url}/metrics"
    with closing(open_unread(impatient_gateway)) as connection:
        before = count_events(impatient_gateway, "client.stalled")
        connection.sendall(build_request(f"/v1/jobs/{large_job.id}/events", {"Accept": "text/event-stream"} | upgrade))
        await wait_for_event(impatient_gateway, "client.stalled", before)

        async def poll() -> bool:
            return await read_metric(metrics, "charonia_waiters") == 0

        await eventually(poll, "there are no waiters")
        assert await asyncio.to_thread(read_all, connection) < sum(map(len, LARGE_WORDS))


async def test_waiting_submit_frees_its_body_budget(impatient_gateway: Service, api: Api) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    large_job = {"model": "echo", "inputs": {"x": [[0.5] * 10_000]}, "run_at": tomorrow}
    async with httpx.AsyncClient(base_url=impatient_gateway.url, headers=KEY, timeout=90) as http:
        waiting = asyncio.create_task(http.post("/v1/jobs", json=large_job, headers={"Prefer": "wait=60"}))
        await wait_for_metric(f"{impatient_gateway.url}/metrics", "charonia_waiters", 1)
        other = read(await http.post("/v1/jobs", json=large_job), 202, Job)
        for job in read(await http.get("/v1/jobs", params={"status": "queued", "model": "echo"}), 200, Jobs).items:
            if job.run_at == other.run_at:
                read(await http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)
        assert read(await waiting, 200, Job).status == "canceled"


async def test_batch_is_limited_by_the_size_of_its_tensors(impatient_gateway: Service) -> None:
    """A number takes two bytes of JSON, two bytes of text and four bytes of tensor."""
    async with httpx.AsyncClient(base_url=impatient_gateway.url, headers=KEY, timeout=20) as http:
        for count, status in [(8_000, 202), (15_000, 413)]:
            response = await http.post("/v1/batches", json=[{"model": "echo", "inputs": {"x": [[1] * count]}}])
            assert response.status_code == status, response.text


def open_unread(impatient_gateway: Service) -> socket.socket:
    """Open a connection whose kernel buffers little."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect((HOST, impatient_gateway.port))
    return connection


def build_request(path: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {HOST}", *(f"{name}: {value}" for name, value in (KEY | headers).items())]
    return "\r\n".join([*lines, "", ""]).encode()


def read_all(connection: socket.socket) -> int:
    """Return the number of bytes until the connection ends or is reset."""
    size = 0
    try:
        while part := connection.recv(65536):
            size += len(part)
    except ConnectionResetError:
        pass
    return size
