"""Restart every process in turn under load. No client notices."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import httpx
import msgspec
import pytest

from deploy.local.processes.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.conftest import restore_stack
from tests.support.api.api_client import Api, Attempts, read
from tests.support.api.model_inputs import work
from tests.support.cluster.load_balancer import open_balanced_client
from tests.support.load import Load
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.guest_stack import GuestStack
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

GRACE = 5.0  # seconds: what is left after the drain is longer than a gateway waits for a body
DRAIN = 2.0  # seconds: time for twenty checks of the balancer; half-sent bodies stall for less than 10
STOP_MARGIN = 8.0  # seconds after the grace period to record and exit
BODY_SECONDS = 1.5  # after a gateway closes, in which the rest of a body is early enough; it waits 2 s
CLIENTS = 6
ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
PATHS_WITH_BODY = ("/v1/jobs", "/v1/batches", "/v2/models/echo/infer", "/v1/webhooks")
EXECUTIONS = "work_requests_total"  # the model's own count
ENVIRONMENT = {
    "CHARONIA_SHUTDOWN_GRACE": str(GRACE),
    "CHARONIA_SHUTDOWN_DELAY": str(DRAIN),
    "CHARONIA_LEASE": "60",  # no expired lease can hide a failure
}


@pytest.fixture(scope="module")
def pairs(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with two processes of each service."""
    settings = Settings.private(tmp_path_factory.mktemp("pairs"), gateways=2, dispatchers=2, notifiers=2)
    pairs = GuestStack(stack, replace(settings, environment=ENVIRONMENT))
    try:
        with pairs:
            yield pairs
    finally:
        pairs.postgres.delete()


@pytest.fixture
async def api(pairs: Stack) -> AsyncIterator[Api]:
    """A client behind a load balancer. The stack is healthy before the test."""
    await asyncio.to_thread(restore_stack, pairs)
    async with open_balanced_client([gateway.url for gateway in pairs.gateways], DEVELOPMENT_KEY) as client:
        yield Api(client)


async def stop(service: Service) -> tuple[int | None, bool]:
    """Stop a service. Return its exit code, and whether it stopped in time."""
    began = time.monotonic()
    code = await asyncio.to_thread(service.stop)
    return code, time.monotonic() - began < GRACE + STOP_MARGIN


async def test_rolling_restart_fails_no_request_and_repeats_no_inference(
    pairs: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    load = Load(api, inbox, CLIENTS)
    executions = await read_metric(pairs.triton.metrics_url, EXECUTIONS)
    stops = {}
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        for service in (*pairs.gateways, *pairs.dispatchers, *pairs.notifiers):
            await load.wait_for_jobs(2 * CLIENTS)
            stops[service.name] = await stop(service)
            await asyncio.to_thread(service.start)
        await load.wait_for_jobs(2 * CLIENTS)
        load.stop()
    assert stops == dict.fromkeys(stops, (0, True))
    assert {(job.status, job.attempt) for job in load.ended} == {("succeeded", 1)}
    assert await read_metric(pairs.triton.metrics_url, EXECUTIONS) - executions == len(load.ended)
    await inbox.wait(len(load.ended))
    secret = await api.callback_secret()
    webhooks = [delivery.verify(secret).data.id for delivery in inbox.deliveries]
    assert sorted(webhooks) == sorted(job.id for job in load.ended)


async def test_stopping_gateway_reports_not_ready_before_it_refuses_connections(pairs: Stack, api: Api) -> None:
    gateway = pairs.gateways[0]
    async with open_client(gateway) as http:
        assert "connection" not in (await http.get("/readyz")).headers
        async with stopping(gateway):
            began = time.monotonic()
            await eventually(lambda: has_status(http, 503), "the gateway is no longer ready")
            ready = await http.get("/readyz")
            accepted = await http.post("/v1/jobs", json=ECHO)
            await eventually(lambda: refuses_connections(http), "the gateway takes no connections")
            assert time.monotonic() - began >= DRAIN
    assert (ready.json()["status"], ready.headers["connection"]) == ("stopping", "close")
    assert (accepted.status_code, accepted.headers["connection"]) == (202, "close")
    assert (await api.wait(accepted.json()["id"])).status == "succeeded"


async def test_stopping_gateway_completes_requests_but_does_not_wait_for_bodies(pairs: Stack, api: Api) -> None:
    response, interrupted = await eventually(partial(stop_amid_bodies, pairs), "a body's rest came in time", 90.0)
    for raw in interrupted:
        assert raw.startswith(b"HTTP/1.1 503 ")
        assert b"the body has not arrived" in raw
    assert response.status_code == 202
    assert (await api.wait(response.json()["id"])).status == "succeeded"


async def stop_amid_bodies(pairs: Stack) -> tuple[httpx.Response, list[bytes]] | None:
    """Stop a gateway that reads bodies. Send the rest of one a little later, and of the others never.

    Return the response to the one, and to the others. Return None if its rest was sent too late.
    """
    await asyncio.to_thread(restore_stack, pairs)
    gateway, go = pairs.gateways[0], asyncio.Event()
    open_at = time.monotonic()

    async def send_slowly() -> AsyncIterator[bytes]:
        body = msgspec.json.encode(ECHO)
        yield body[:9]
        await go.wait()
        yield body[9:]

    async def has_closed() -> bool:
        nonlocal open_at
        asked_at = time.monotonic()
        if not (closed := await refuses_connections(http)):
            open_at = asked_at
        return closed

    async with open_client(gateway) as http:
        submitting = asyncio.create_task(http.post("/v1/jobs", content=send_slowly()))
        half_sent = [asyncio.create_task(send_half(gateway, path)) for path in PATHS_WITH_BODY]
        assert await has_status(http, 200)  # a later connection, so the gateway has accepted the earlier ones
        async with stopping(gateway):
            await eventually(has_closed, "the gateway takes no connections")
            closed_at = time.monotonic()
            await eventually(lambda: has_passed(closed_at + 0.3), "some of the grace has passed")
            go.set()
            if time.monotonic() > open_at + BODY_SECONDS:
                await asyncio.gather(submitting, *half_sent, return_exceptions=True)  # its connection may be closed
                return None
            response = await submitting
            interrupted = await asyncio.gather(*half_sent)
    return response, interrupted


@asynccontextmanager
async def stopping(service: Service) -> AsyncIterator[None]:
    """Stop a service while the block runs. At the end, check that it stopped in time with exit code 0."""
    task = asyncio.create_task(stop(service))
    try:
        yield
    finally:
        ended = await task
    assert ended == (0, True)


def open_client(gateway: Service) -> httpx.AsyncClient:
    """Open a client of this gateway only."""
    return httpx.AsyncClient(base_url=gateway.url, headers={"Authorization": f"Bearer {DEVELOPMENT_KEY}"}, timeout=10)


async def send_half(gateway: Service, path: str) -> bytes:
    """Send a request whose body is shorter than announced. Return the whole response."""
    reader, writer = await asyncio.open_connection(HOST, gateway.port)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {DEVELOPMENT_KEY}\r\nContent-Length: 9\r\n\r\n["
    )
    writer.write(head.encode())
    try:
        return await reader.read()
    finally:
        writer.close()


async def has_status(http: httpx.AsyncClient, status: int) -> bool:
    return (await http.get("/readyz")).status_code == status


async def has_passed(moment: float) -> bool:
    return time.monotonic() >= moment


async def refuses_connections(http: httpx.AsyncClient) -> bool:
    try:
        await http.get("/healthz")
    except httpx.TransportError as error:  # a connection that was still queued when the gateway closed is reset
        return isinstance(error, httpx.ConnectError)
    return False


async def test_job_longer_than_the_grace_period_is_returned_and_runs_elsewhere(pairs: Stack, api: Api) -> None:
    submitted = await api.submit("work", work(round((GRACE + 4) * 1000)))  # the stop may come seconds after its start
    dispatcher = await find_busy_dispatcher(pairs.dispatchers)
    assert await stop(dispatcher) == (0, True)
    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.error) == ("succeeded", 1, None)
    first, second = read(await api.http.get(f"/v1/jobs/{job.id}/attempts"), 200, Attempts).items
    assert (first.attempt, first.status, first.error_code) == (1, "returned", "worker_stopped")
    assert (second.attempt, second.status) == (1, "succeeded")
    assert first.worker != second.worker
    assert first.duration_ms >= GRACE * 1000


async def find_busy_dispatcher(dispatchers: Sequence[Service]) -> Service:
    """Return the dispatcher that runs a job of the model `work`."""

    async def poll() -> Service | None:
        for dispatcher in dispatchers:
            if await read_metric(f"{dispatcher.url}/metrics", "charonia_slots_used", model="work"):
                return dispatcher
        return None

    return await eventually(poll, "a dispatcher runs the job")
