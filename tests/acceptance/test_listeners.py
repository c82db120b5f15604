"""Whoever listens while nothing happens is told so, and nobody holds more than a place, or that for long."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from deploy.local.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job, Jobs, read
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.samples import work
from tests.acceptance.serving import another_gateway
from tests.acceptance.waiting import eventually

KEY = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
LARGE = [f"{number}".rjust(300_000, "x") for number in range(40)]  # more than both ends' kernels hold
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture(scope="module")
async def gateway(stack: Stack) -> AsyncIterator[Service]:
    """One that is quick to tell that nothing happens and to lose patience, and has room for one large body."""
    async with another_gateway(
        stack, CHARONIA_HEARTBEAT="0.1", CHARONIA_SEND_TIMEOUT="0.5", CHARONIA_MAX_BODIES="65536"
    ) as other:
        yield other


@pytest.fixture(scope="module")
async def large(api: Api) -> Job:
    """A job whose story is large."""
    return await api.run("tokens", {"text": [" ".join(LARGE)], "delay_ms": [0]})


async def test_a_stream_in_which_nothing_happens_shows_that_it_lives(gateway: Service, api: Api) -> None:
    submitted = await api.submit("work", work(60_000))
    path, headers = f"/v1/jobs/{submitted.id}/events", KEY | {"Accept": "text/event-stream"}
    async with (
        httpx.AsyncClient(base_url=gateway.url, timeout=20) as http,
        http.stream("GET", path, headers=headers) as answer,
    ):
        lines = answer.aiter_lines()
        assert [await anext(lines) for _ in range(2)] == ["retry: 1000", ""]
        comments = 0
        async for line in lines:
            comments += line == ":"
            if comments == 3:
                read(await api.http.post(f"/v1/jobs/{submitted.id}/cancel"), 202, Job)
                break
        told = [line async for line in lines if line.startswith("event: ")]
    assert told[-1] == "event: job.canceled"


@pytest.mark.parametrize("upgrade", [{}, UPGRADE], ids=["stream", "websocket"])
async def test_who_does_not_read_loses_its_place(gateway: Service, large: Job, upgrade: dict[str, str]) -> None:
    """And its connection, which it keeps open."""
    metrics = f"{gateway.url}/metrics"
    with closing(open_deaf(gateway)) as deaf:
        deaf.sendall(ask(f"/v1/jobs/{large.id}/events", {"Accept": "text/event-stream"} | upgrade))
        await wait_for_metric(metrics, "charonia_watchers", 1)

        async def look() -> bool:
            return await read_metric(metrics, "charonia_watchers") == 0

        await eventually(look, "the place is free")
        assert await asyncio.to_thread(read_all, deaf) < sum(map(len, LARGE))


async def test_who_waits_for_a_submit_holds_none_of_the_room_for_bodies(gateway: Service, api: Api) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    large = {"model": "echo", "inputs": {"x": [[0.5] * 10_000]}, "run_at": tomorrow}
    async with httpx.AsyncClient(base_url=gateway.url, headers=KEY, timeout=90) as http:
        waiting = asyncio.create_task(http.post("/v1/jobs", json=large, headers={"Prefer": "wait=60"}))
        await wait_for_metric(f"{gateway.url}/metrics", "charonia_watchers", 1)
        other = read(await http.post("/v1/jobs", json=large), 202, Job)
        for job in read(await http.get("/v1/jobs", params={"status": "queued", "model": "echo"}), 200, Jobs).items:
            if job.run_at == other.run_at:
                read(await http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)
        assert read(await waiting, 200, Job).status == "canceled"


async def test_a_batch_counts_for_what_its_inputs_become(gateway: Service) -> None:
    """A number is two bytes of JSON here, two of text, and four of its tensor."""
    async with httpx.AsyncClient(base_url=gateway.url, headers=KEY, timeout=20) as http:
        for count, status in [(8_000, 202), (15_000, 413)]:
            answer = await http.post("/v1/batches", json=[{"model": "echo", "inputs": {"x": [[1] * count]}}])
            assert answer.status_code == status, answer.text


def open_deaf(gateway: Service) -> socket.socket:
    """A connection whose kernel takes little unasked."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect((HOST, gateway.port))
    return connection


def ask(path: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {HOST}", *(f"{name}: {value}" for name, value in (KEY | headers).items())]
    return "\r\n".join([*lines, "", ""]).encode()


def read_all(connection: socket.socket) -> int:
    """How many bytes come until the end, or until the connection is cut."""
    size = 0
    try:
        while part := connection.recv(65536):
            size += len(part)
    except ConnectionResetError:
        pass
    return size
