"""Jobs that ask the same run once, over two gateways and two dispatchers."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.conftest import restore_stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.cluster.load_balancer import open_balanced_client
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.guest_stack import GuestStack
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

JOBS = 300  # the benchmark `reuse` has 1,000
AT_ONCE = 50  # requests
EXECUTIONS = "work_requests_total"  # the model's own count
REUSE = {"max_age": 600}


@pytest.fixture(scope="module")
def pairs(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with two gateways and two dispatchers."""
    settings = Settings.private(tmp_path_factory.mktemp("pairs"), gateways=2, dispatchers=2)
    pairs = GuestStack(stack, settings)
    try:
        with pairs:
            yield pairs
    finally:
        pairs.postgres.delete()


@pytest.fixture
async def api(pairs: Stack) -> AsyncIterator[Api]:
    await asyncio.to_thread(restore_stack, pairs)
    async with open_balanced_client([gateway.url for gateway in pairs.gateways], DEVELOPMENT_KEY) as client:
        api = Api(client)
        await eventually(lambda: knows_load(api), "the load of the model is known")
        yield api


async def knows_load(api: Api) -> bool:
    return bool((await api.http.get("/v1/models/work")).json().get("loaded_at"))


async def post(api: Api, **body: Any) -> dict[str, Any]:
    response = await api.http.post("/v1/jobs", json={"reuse": REUSE, **body})
    assert response.status_code == 202, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_many_at_once_run_once_and_each_gets_its_result_and_webhook(
    pairs: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    before = await read_metric(pairs.triton.metrics_url, EXECUTIONS)
    room = asyncio.Semaphore(AT_ONCE)

    async def submit() -> str:
        async with room:
            job = await post(api, model="work", inputs=work(1500), webhook={"url": inbox.url})
            return str(job["id"])

    jobs = await asyncio.gather(*(submit() for _ in range(JOBS)))
    await inbox.wait(JOBS, within=60.0)
    assert await read_metric(pairs.triton.metrics_url, EXECUTIONS) - before == 1
    secret = await api.callback_secret()
    events = [delivery.verify(secret).data for delivery in inbox.deliveries]
    assert sorted(event.id for event in events) == sorted(jobs)
    assert {(event.status, tuple(event.output("slept"))) for event in events} == {("succeeded", (1500,))}
    assert Counter(event.attempt for event in events) == {0: JOBS - 1, 1: 1}


async def test_a_job_that_waits_says_for_which_and_a_hit_answers_at_once(pairs: Stack, api: Api) -> None:
    first = await post(api, model="work", inputs=work(1501))
    second = await post(api, model="work", inputs=work(1501))
    shown = (await api.http.get(f"/v1/jobs/{second['id']}")).json()
    assert (shown["waiting_for"]["code"], shown["waiting_for"]["job"]) == ("same_job", first["id"])
    assert (await api.wait(second["id"])).status == "succeeded"
    hit = await api.http.post(
        "/v1/jobs", json={"model": "work", "inputs": work(1501), "reuse": REUSE}, headers={"Prefer": "wait=10"}
    )
    assert hit.status_code == 200, hit.text
    assert (hit.json()["status"], hit.json()["reused_from"]) == ("succeeded", first["id"])
    assert hit.json()["outputs"] == (await api.http.get(f"/v1/jobs/{first['id']}")).json()["outputs"]


async def test_a_large_result_is_in_the_first_answer_and_in_that_to_the_same_request(pairs: Stack, api: Api) -> None:
    body = {"model": "echo", "inputs": {"x": [[float(number) for number in range(60_000)]]}, "reuse": REUSE}
    first = await api.http.post("/v1/jobs", json=body, headers={"Prefer": "wait=30"})
    assert first.json()["status"] == "succeeded"
    answers = [
        (await api.http.post("/v1/jobs", json=body, headers={"Idempotency-Key": "large"})).json() for _ in range(2)
    ]
    for answer in answers:
        assert (answer["status"], answer["reused_from"]) == ("succeeded", first.json()["id"])
        assert answer["outputs"] == first.json()["outputs"]
    assert answers[0]["id"] == answers[1]["id"]


async def test_kills_of_dispatchers_cost_one_execution_each_at_most(pairs: Stack, api: Api) -> None:
    before = await read_metric(pairs.triton.metrics_url, EXECUTIONS)
    body = {"model": "work", "inputs": work(8002), "retry": {"max_attempts": 10, "initial_delay": 0.1}}
    jobs = [(await post(api, **body))["id"]]
    await api.wait(jobs[0], "processing")
    for dispatcher in pairs.dispatchers:
        await asyncio.to_thread(dispatcher.kill)
        jobs += [(await post(api, **body))["id"] for _ in range(20)]
        await asyncio.to_thread(dispatcher.start)
    ended = await asyncio.gather(*(api.wait(job, within=90.0) for job in jobs))
    assert {job.status for job in ended} == {"succeeded"}
    executions = await read_metric(pairs.triton.metrics_url, EXECUTIONS) - before
    assert 1 <= executions <= 1 + len(pairs.dispatchers)
