"""Every process may be stopped and started in turn, under load, and no client notices."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import msgspec
import pytest

from deploy.local.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.balancer import balanced
from tests.acceptance.client import Api, Attempts, Job, read
from tests.acceptance.conftest import heal
from tests.acceptance.metrics import read_metric
from tests.acceptance.receiver import Inbox, Receiver
from tests.acceptance.samples import work
from tests.acceptance.waiting import eventually

GRACE = 5.0  # seconds: behind the drain more than a gateway waits for a body
DRAIN = 2.0  # seconds: twenty looks of the balancer, or a few where the machine is busy
SETTLING = 5.0  # seconds it may take, behind the grace, to write down what was handed back and to end
CLIENTS = 6
ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
TAKING_BODIES = ("/v1/jobs", "/v1/batches", "/v2/models/echo/infer", "/v1/webhooks")
RUNS = "work_requests_total"  # the model's own count
ENVIRONMENT = {
    "CHARONIA_SHUTDOWN_GRACE": str(GRACE),
    "CHARONIA_DRAIN": str(DRAIN),
    "CHARONIA_LEASE": "60",  # so that nothing is saved by a lapsed lease
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with two of each service."""
    settings = Settings.private(tmp_path_factory.mktemp("pairs"), gateways=2, dispatchers=2, notifiers=2)
    stack = Stack(replace(settings, environment=ENVIRONMENT))
    try:
        with stack:
            yield stack
    finally:
        stack.postgres.delete()


@pytest.fixture
async def api(pairs: Stack) -> AsyncIterator[Api]:
    """A client behind a load balancer; everything serves before and after."""
    await asyncio.to_thread(heal, pairs)
    async with balanced([gateway.url for gateway in pairs.gateways], DEVELOPMENT_KEY) as client:
        yield Api(client)
    await asyncio.to_thread(heal, pairs)


class Load:
    """Clients that submit a job and poll until it has ended, one after the other; the first failed request raises."""

    def __init__(self, api: Api, inbox: Inbox) -> None:
        self.api = api
        self.inbox = inbox
        self.ended: list[Job] = []
        self.over = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self.work())

    async def work(self) -> None:
        while not self.over:
            self.ended.append(await self.api.run("work", work(100), webhook={"url": self.inbox.url}))

    async def advance(self, jobs: int) -> None:
        """Returns once so many more have ended."""
        goal = len(self.ended) + jobs

        async def look() -> bool:
            return len(self.ended) >= goal

        await eventually(look, f"{jobs} more jobs have ended")


async def stop(service: Service) -> tuple[int | None, bool]:
    """Its exit code, and whether it took no longer than it may."""
    began = time.monotonic()
    code = await asyncio.to_thread(service.stop)
    return code, time.monotonic() - began < GRACE + SETTLING


async def test_a_rolling_restart_fails_no_request_and_repeats_no_inference(
    pairs: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    load = Load(api, inbox)
    runs = await read_metric(pairs.triton.metrics_url, RUNS)
    stops = {}
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        for service in (*pairs.gateways, *pairs.dispatchers, *pairs.notifiers):
            await load.advance(2 * CLIENTS)
            stops[service.name] = await stop(service)
            await asyncio.to_thread(service.start)
        await load.advance(2 * CLIENTS)
        load.over = True
    assert stops == dict.fromkeys(stops, (0, True))
    assert {(job.status, job.attempt) for job in load.ended} == {("succeeded", 1)}
    assert await read_metric(pairs.triton.metrics_url, RUNS) - runs == len(load.ended)
    await inbox.wait(len(load.ended))
    secret = await api.callback_secret()
    told = [delivery.verify(secret).data.id for delivery in inbox.deliveries]
    assert sorted(told) == sorted(job.id for job in load.ended)


async def test_a_gateway_that_is_asked_to_stop_is_taken_out_before_it_refuses(pairs: Stack, api: Api) -> None:
    gateway = pairs.gateways[0]
    async with open_client(gateway) as http:
        assert "connection" not in (await http.get("/readyz")).headers
        async with stopping(gateway):
            began = time.monotonic()
            await eventually(lambda: answers(http, 503), "the gateway is no longer ready")
            ready = await http.get("/readyz")
            accepted = await http.post("/v1/jobs", json=ECHO)
            await eventually(lambda: refuses(http), "the gateway takes no connections")
            assert time.monotonic() - began >= DRAIN
    assert (ready.json()["status"], ready.headers["connection"]) == ("stopping", "close")
    assert (accepted.status_code, accepted.headers["connection"]) == (202, "close")
    assert (await api.wait(accepted.json()["id"])).status == "succeeded"


async def test_a_gateway_that_refuses_connections_answers_what_is_in_flight_but_waits_for_no_body(
    pairs: Stack, api: Api
) -> None:
    gateway, go = pairs.gateways[0], asyncio.Event()

    async def dawdle() -> AsyncIterator[bytes]:
        body = msgspec.json.encode(ECHO)
        yield body[:9]
        await go.wait()
        yield body[9:]

    async with open_client(gateway) as http:
        asking = asyncio.create_task(http.post("/v1/jobs", content=dawdle()))
        half = [asyncio.create_task(send_half(gateway, path)) for path in TAKING_BODIES]
        assert await answers(http, 200)  # over a later connection, so the others are known
        async with stopping(gateway):
            await eventually(lambda: refuses(http), "the gateway takes no connections")
            shut = time.monotonic()
            await eventually(lambda: passed(shut + 0.5), "half a second of the grace has passed")
            go.set()
            answer = await asking
            cut = await asyncio.gather(*half)
    for told in cut:
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"the body has not come" in told
    assert answer.status_code == 202
    assert (await api.wait(answer.json()["id"])).status == "succeeded"


@asynccontextmanager
async def stopping(service: Service) -> AsyncIterator[None]:
    """Inside, it is stopping; at the end it must have ended well."""
    task = asyncio.create_task(stop(service))
    try:
        yield
    finally:
        ended = await task
    assert ended == (0, True)


def open_client(gateway: Service) -> httpx.AsyncClient:
    """A client of this gateway alone."""
    return httpx.AsyncClient(base_url=gateway.url, headers={"Authorization": f"Bearer {DEVELOPMENT_KEY}"}, timeout=10)


async def send_half(gateway: Service, path: str) -> bytes:
    """A request that says it has more of a body than comes; all that is answered."""
    reader, writer = await asyncio.open_connection(HOST, gateway.port)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {DEVELOPMENT_KEY}\r\nContent-Length: 9\r\n\r\n["
    )
    writer.write(head.encode())
    try:
        return await reader.read()
    finally:
        writer.close()


async def answers(http: httpx.AsyncClient, status: int) -> bool:
    return (await http.get("/readyz")).status_code == status


async def passed(moment: float) -> bool:
    return time.monotonic() >= moment


async def refuses(http: httpx.AsyncClient) -> bool:
    try:
        await http.get("/healthz")
    except httpx.TransportError as error:  # one that was still queued when the gateway closed is reset
        return isinstance(error, httpx.ConnectError)
    return False


async def test_an_inference_that_outlasts_the_grace_is_handed_back_and_runs_elsewhere(pairs: Stack, api: Api) -> None:
    submitted = await api.submit("work", work(round((GRACE + 2) * 1000)))
    dispatcher = await find_busy(pairs.dispatchers)
    assert await stop(dispatcher) == (0, True)
    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.error) == ("succeeded", 1, None)
    first, second = read(await api.http.get(f"/v1/jobs/{job.id}/attempts"), 200, Attempts).items
    assert (first.attempt, first.status, first.error_code) == (1, "returned", "worker_stopped")
    assert (second.attempt, second.status) == (1, "succeeded")
    assert first.worker != second.worker
    assert first.duration_ms >= GRACE * 1000


async def find_busy(dispatchers: Sequence[Service]) -> Service:
    """The one that runs a job of the model `work`."""

    async def look() -> Service | None:
        for dispatcher in dispatchers:
            if await read_metric(f"{dispatcher.url}/metrics", "charonia_slots_used", model="work"):
                return dispatcher
        return None

    return await eventually(look, "a dispatcher runs the job")
