"""PostgreSQL may die, hang, drop connections or fail over. Uncommitted work is not accepted, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from common.rabbitmq import topology
from deploy.local.processes.ports import free_ports
from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import work
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.queues import wait_for_message
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.telemetry.service_logs import count_events, wait_for_event
from tests.support.waiting import eventually

SOON = 30.0  # seconds; a lost wake-up would be repeated only after a minute
DEADLINE = 20.0  # seconds for a response; the deadline of a statement is 15
INTERVAL = 0.05  # seconds between two rounds of requests
ECHO = {"x": [[1.0]]}
REFUSED = "cannot execute INSERT in a read-only transaction"
SUBMIT = {"model": "echo", "inputs": ECHO}


@asynccontextmanager
async def killed(stack: Stack) -> AsyncIterator[None]:
    await asyncio.to_thread(stack.postgres.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(stack.postgres.start)


@asynccontextmanager
async def frozen(stack: Stack) -> AsyncIterator[None]:
    stack.postgres.freeze()
    try:
        yield
    finally:
        stack.postgres.thaw()


@asynccontextmanager
async def read_only(stack: Stack) -> AsyncIterator[None]:
    await asyncio.to_thread(stack.postgres.set_read_only, True)
    try:
        yield
    finally:
        await asyncio.to_thread(stack.postgres.set_read_only, False)


async def restart(stack: Stack, _api: Api) -> None:
    await asyncio.to_thread(stack.postgres.restart)


async def cut_off(stack: Stack, _api: Api) -> None:
    for _ in range(5):
        await asyncio.to_thread(stack.postgres.close_connections)


async def fail_over(stack: Stack, api: Api) -> None:
    """Fail over to a server that is read-only until it has refused a request."""

    async def are_writes_refused() -> bool:
        return (await api.http.post("/v1/jobs", json=SUBMIT)).status_code == 503

    async with read_only(stack):
        await eventually(are_writes_refused, "writes are refused")


def check_refusal(response: httpx.Response) -> None:
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json() == {
        "type": "urn:charonia:problem:unavailable",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "a dependency does not answer or is overloaded; try again later",
        "instance": response.request.url.path,
    }
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")


async def check_ran_once(stack: Stack, api: Api, job_id: str) -> Job:
    job = await api.wait(job_id, within=SOON)
    assert (job.status, job.attempt) == ("succeeded", 1)
    assert await read_metric(stack.triton.metrics_url, "work_executions_total", request_id=job_id) == 1
    return job


@pytest.fixture
async def new_dispatcher(breakable: Stack) -> AsyncIterator[Service]:
    """Another dispatcher, which the test starts."""
    port = breakable.dispatchers[0].port + 1
    service = Service("dispatcher", port, breakable.environment, breakable.log_dir, name="new-dispatcher")
    yield service
    await asyncio.to_thread(service.stop)


@pytest.fixture
async def new_gateway(breakable: Stack) -> AsyncIterator[Service]:
    """Another gateway, which the test starts. It adds a first key."""
    environment = breakable.environment | {"CHARONIA_BOOTSTRAP_KEY": "chk_" + 40 * "b"}
    (port,) = free_ports(1)
    service = Service("gateway", port, environment, breakable.log_dir, name="new-gateway")
    yield service
    await asyncio.to_thread(service.stop)


async def test_gateway_waits_at_its_start_for_a_server_that_can_be_written(
    breakable: Stack, new_gateway: Service
) -> None:
    log = breakable.postgres.process.log.path
    before = log.read_text().count(REFUSED)

    async def is_refused_again() -> bool:
        return log.read_text().count(REFUSED) > before + 1

    async with read_only(breakable):
        await asyncio.to_thread(new_gateway.launch)
        await eventually(is_refused_again, "the server refused the first key twice", within=SOON)
    await asyncio.to_thread(new_gateway.wait_ready)


async def test_job_keeps_its_result_when_the_database_dies_during_its_run(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    inferred = f"{breakable.dispatchers[0].url}/metrics", "charonia_inference_seconds_count"
    before = await read_metric(*inferred, model="work")
    submitted = await api.submit("work", work(500), webhook={"url": inbox.url})
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=submitted.id)
    async with killed(breakable):
        check_refusal(await api.http.post("/v1/jobs", json=SUBMIT))
        assert (await api.http.get("/readyz")).status_code == 503
        assert (await api.http.get("/healthz")).status_code == 200
        await wait_for_metric(*inferred, before + 1, model="work")  # the result exists but cannot be saved
    job = await check_ran_once(breakable, api, submitted.id)
    assert job.output("slept") == [500]
    await inbox.wait_for([job], await api.callback_secret(), within=SOON)


async def test_outage_longer_than_a_lease_runs_no_job_twice(
    breakable: Stack, new_dispatcher: Service, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    metrics = f"{breakable.dispatchers[0].url}/metrics"
    before = await read_metric(metrics, "charonia_inference_seconds_count", model="work")
    first = await api.submit("work", work(5500), webhook={"url": inbox.url})  # longer than the lease
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=first.id)
    second = await api.submit("work", work(3000), webhook={"url": inbox.url})  # runs second: one instance
    await api.wait(second.id, "processing")
    started = count_events(new_dispatcher, "dispatcher.started")
    async with killed(breakable):
        await asyncio.to_thread(new_dispatcher.launch)  # a dispatcher that knows nothing of the outage
        await wait_for_metric(metrics, "charonia_inference_seconds_count", before + 1, model="work")
        await wait_for_metric(metrics, "charonia_slots_used", 1, model="work")  # the second job's
        await wait_for_event(new_dispatcher, "dispatcher.started", started)
    for job in (first, second):
        await check_ran_once(breakable, api, job.id)
    await inbox.wait_for([first, second], await api.callback_secret(), within=SOON)


async def test_hanging_database_means_503_by_the_deadline_and_running_jobs_complete(breakable: Stack, api: Api) -> None:
    submitted = await api.submit("work", work(17_000))
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=submitted.id)
    requests = [("POST", "/v1/jobs"), ("GET", f"/v1/jobs/{submitted.id}"), ("GET", "/v1/models")]
    async with frozen(breakable):
        sent = [api.http.request(method, path, json=SUBMIT, timeout=DEADLINE) for method, path in requests]
        for response in await asyncio.gather(*sent):
            check_refusal(response)
    await check_ran_once(breakable, api, submitted.id)


@pytest.mark.parametrize("fault", [restart, cut_off, fail_over])
async def test_database_faults_are_never_reported_as_internal_errors(
    breakable: Stack, api: Api, fault: Callable[[Stack, Api], Awaitable[None]]
) -> None:
    ended = await api.run("echo", ECHO)
    requests = [("POST", "/v1/jobs"), ("GET", f"/v1/jobs/{ended.id}"), ("POST", f"/v1/jobs/{ended.id}/cancel")]
    breaking = asyncio.ensure_future(fault(breakable, api))
    responses: list[httpx.Response] = []
    while not breaking.done():
        responses += await asyncio.gather(*(api.http.request(method, path, json=SUBMIT) for method, path in requests))
        await asyncio.wait([breaking], timeout=INTERVAL)
    await breaking
    for response in responses:
        if response.status_code not in (200, 202, 409):
            check_refusal(response)

    async def is_back() -> bool:  # a connection may break some time after the fault
        return (await api.http.get(f"/v1/jobs/{ended.id}")).status_code == 200

    await eventually(is_back, "the gateway answers")
    for response in responses:
        if response.status_code == 202:
            job = await api.wait(read(response, 202, Job).id, within=SOON)
            assert (job.status, job.attempt) == ("succeeded", 1)


async def test_no_message_is_acknowledged_before_its_work_is_committed(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    (dispatcher,), (notifier,) = breakable.dispatchers, breakable.notifiers
    returned = [count_events(service, "message.returned") for service in (dispatcher, notifier)]
    try:
        notifier.freeze()
        late_webhook = await api.run("echo", ECHO, webhook={"url": inbox.url})
        await wait_for_message(breakable, topology.NOTIFIER_QUEUE)
        dispatcher.freeze()
        late_job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
        await wait_for_message(breakable, "jobs.echo.normal")
        await asyncio.to_thread(breakable.postgres.kill)
    finally:
        dispatcher.thaw()
        notifier.thaw()
    for service, count in zip((dispatcher, notifier), returned, strict=True):
        await wait_for_event(service, "message.returned", count)
    await asyncio.to_thread(breakable.postgres.start)
    job = await api.wait(late_job.id, within=SOON)
    assert (job.status, job.attempt) == ("succeeded", 1)
    await inbox.wait_for([late_webhook, late_job], await api.callback_secret(), within=SOON)
