"""PostgreSQL may die, hang, cut us off or fail over: what cannot be committed is not accepted, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job, read
from tests.acceptance.doorbells import wait_for_doorbells
from tests.acceptance.logs import count_events, wait_for_event
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import work
from tests.acceptance.waiting import eventually

SOON = 30.0  # seconds; a lost doorbell would only be rung again after a minute
DEADLINE = 20.0  # seconds for an answer; the deadline of a statement is 15
PACE = 0.05  # seconds between two rounds of requests
ECHO = {"x": [[1.0]]}
SUBMIT = {"model": "echo", "inputs": ECHO}

Outage = Callable[[Stack], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def dead(stack: Stack) -> AsyncIterator[None]:
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
    """To a server that is read only until a request was refused for it."""

    async def refused() -> bool:
        return (await api.http.post("/v1/jobs", json=SUBMIT)).status_code == 503

    async with read_only(stack):
        await eventually(refused, "writes are refused")


def check_refusal(answer: httpx.Response) -> None:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:charonia:problem:unavailable",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "a service this one depends on does not answer, or too much is waiting; try again later",
        "instance": answer.request.url.path,
    }
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def check_ran_once(stack: Stack, api: Api, job_id: str) -> Job:
    job = await api.wait(job_id, within=SOON)
    assert (job.status, job.attempt) == ("succeeded", 1)
    assert await read_metric(stack.triton.metrics_url, "work_executions_total", request_id=job_id) == 1
    return job


@pytest.fixture
async def newcomer(breakable: Stack) -> AsyncIterator[Service]:
    """Another dispatcher, not yet started."""
    port = breakable.dispatchers[0].port + 1
    service = Service("dispatcher", port, breakable.environment, breakable.log_dir, name="newcomer")
    yield service
    await asyncio.to_thread(service.stop)


async def test_a_job_that_runs_while_the_database_dies_keeps_its_result(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    inferred = f"{breakable.dispatchers[0].url}/metrics", "charonia_inference_seconds_count"
    before = await read_metric(*inferred, model="work")
    submitted = await api.submit("work", work(500), webhook={"url": inbox.url})
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=submitted.id)
    async with dead(breakable):
        check_refusal(await api.http.post("/v1/jobs", json=SUBMIT))
        assert (await api.http.get("/readyz")).status_code == 503
        assert (await api.http.get("/healthz")).status_code == 200
        await wait_for_metric(*inferred, before + 1, model="work")  # the result is there, with nowhere to go
    job = await check_ran_once(breakable, api, submitted.id)
    assert job.output("slept") == [500]
    await inbox.wait_for([job], await api.callback_secret(), within=SOON)


@pytest.mark.parametrize("outage", [dead, read_only])
async def test_an_outage_longer_than_a_lease_makes_nothing_run_twice(
    breakable: Stack, newcomer: Service, api: Api, receiver: Receiver, outage: Outage
) -> None:
    inbox = receiver.inbox()
    metrics = f"{breakable.dispatchers[0].url}/metrics"
    before = await read_metric(metrics, "charonia_inference_seconds_count", model="work")
    first = await api.submit("work", work(5500), webhook={"url": inbox.url})  # longer than the lease
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=first.id)
    second = await api.submit("work", work(3000), webhook={"url": inbox.url})  # runs after it: there is one instance
    await api.wait(second.id, "processing")
    started = count_events(newcomer, "dispatcher.started")
    async with outage(breakable):
        await asyncio.to_thread(newcomer.launch)  # a dispatcher that knows nothing of the outage
        await wait_for_metric(metrics, "charonia_inference_seconds_count", before + 1, model="work")
        await wait_for_metric(metrics, "charonia_slots_used", 1, model="work")  # the second's; a result is held without
        await wait_for_event(newcomer, "dispatcher.started", started)
    for job in (first, second):
        await check_ran_once(breakable, api, job.id)
    await inbox.wait_for([first, second], await api.callback_secret(), within=SOON)


async def test_a_database_that_hangs_is_a_503_by_the_deadline_and_costs_no_running_job(
    breakable: Stack, api: Api
) -> None:
    submitted = await api.submit("work", work(17_000))
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=submitted.id)
    requests = [("POST", "/v1/jobs"), ("GET", f"/v1/jobs/{submitted.id}"), ("GET", "/v1/models")]
    async with frozen(breakable):
        asked = [api.http.request(method, path, json=SUBMIT, timeout=DEADLINE) for method, path in requests]
        for answer in await asyncio.gather(*asked):
            check_refusal(answer)
    await check_ran_once(breakable, api, submitted.id)


@pytest.mark.parametrize("fault", [restart, cut_off, fail_over])
async def test_no_trouble_with_the_database_is_answered_as_a_bug(
    breakable: Stack, api: Api, fault: Callable[[Stack, Api], Awaitable[None]]
) -> None:
    ended = await api.run("echo", ECHO)
    requests = [("POST", "/v1/jobs"), ("GET", f"/v1/jobs/{ended.id}"), ("POST", f"/v1/jobs/{ended.id}/cancel")]
    breaking = asyncio.ensure_future(fault(breakable, api))
    answers: list[httpx.Response] = []
    while not breaking.done():
        answers += await asyncio.gather(*(api.http.request(method, path, json=SUBMIT) for method, path in requests))
        await asyncio.wait([breaking], timeout=PACE)
    await breaking
    for answer in answers:
        if answer.status_code not in (200, 202, 409):
            check_refusal(answer)

    async def is_over() -> bool:  # a connection's end may be felt after the fault's
        return (await api.http.get(f"/v1/jobs/{ended.id}")).status_code == 200

    await eventually(is_over, "the gateway answers")
    for answer in answers:
        if answer.status_code == 202:
            job = await api.wait(read(answer, 202, Job).id, within=SOON)
            assert (job.status, job.attempt) == ("succeeded", 1)


async def test_nothing_is_acknowledged_that_is_not_committed(breakable: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    (dispatcher,), (notifier,) = breakable.dispatchers, breakable.notifiers
    returned = [count_events(service, "message.returned") for service in (dispatcher, notifier)]
    try:
        notifier.freeze()
        told_late = await api.run("echo", ECHO, webhook={"url": inbox.url})
        await wait_for_doorbells(breakable)
        dispatcher.freeze()
        run_late = await api.submit("echo", ECHO, webhook={"url": inbox.url})
        await wait_for_doorbells(breakable)
        await asyncio.to_thread(breakable.postgres.kill)
    finally:
        dispatcher.thaw()
        notifier.thaw()
    for service, count in zip((dispatcher, notifier), returned, strict=True):
        await wait_for_event(service, "message.returned", count)
    await asyncio.to_thread(breakable.postgres.start)
    job = await api.wait(run_late.id, within=SOON)
    assert (job.status, job.attempt) == ("succeeded", 1)
    await inbox.wait_for([told_late, run_late], await api.callback_secret(), within=SOON)
