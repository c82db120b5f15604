"""One Idempotency-Key is one job, however often and whatever happens while it is submitted."""

import asyncio
from uuid import uuid4

import httpx
import msgspec

from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job, read
from tests.acceptance.receiver import Receiver
from tests.acceptance.waiting import eventually

INPUTS = {"x": [[1.0]]}
ECHO = {"model": "echo", "inputs": INPUTS}


async def submit(api: Api, key: str, **options: object) -> httpx.Response:
    return await api.http.post("/v1/jobs", json=ECHO | options, headers={"Idempotency-Key": key})


async def test_fifty_submits_at_once_under_one_key_are_one_job_and_one_event(api: Api, receiver: Receiver) -> None:
    inbox, key = receiver.inbox(), str(uuid4())
    answers = await asyncio.gather(*(submit(api, key, webhook={"url": inbox.url}) for _ in range(50)))
    jobs = {answer.content for answer in answers}
    assert [answer.status_code for answer in answers] == [202] * 50
    assert len(jobs) == 1
    assert [answer.headers.get("idempotency-replayed") for answer in answers].count("true") == 49
    job = read(answers[0], 202, Job)
    await api.wait_for_webhooks(job.id)
    later = await submit(api, str(uuid4()), webhook={"url": inbox.url})
    heard = [delivery.verify(await api.callback_secret()).data.id for delivery in await inbox.wait(2)]
    assert heard == [job.id, read(later, 202, Job).id]


async def test_a_repeat_answers_as_the_first_did_also_when_the_job_has_ended(api: Api) -> None:
    key = str(uuid4())
    first = await submit(api, key, metadata={"order": 7})
    await api.wait(read(first, 202, Job).id)
    again = await submit(api, key, metadata={"order": 7})
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")


async def test_the_same_key_for_another_request_is_refused(api: Api, stranger: Api) -> None:
    key = str(uuid4())
    read(await submit(api, key), 202, Job)
    other = await submit(api, key, priority="low")
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")
    assert "idempotency-replayed" not in (await submit(stranger, key)).headers
    bad = await submit(api, "a key")
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")


async def test_a_key_is_a_jobs_or_a_batchs(api: Api) -> None:
    """Though their bodies be the same."""
    body, (first, second) = msgspec.json.encode(ECHO), (str(uuid4()), str(uuid4()))
    for key, path, other in [(first, "/v1/jobs", "/v1/batches"), (second, "/v1/batches", "/v1/jobs")]:

        async def send(path: str, key: str = key) -> httpx.Response:
            kind = "application/json" if path == "/v1/jobs" else "application/x-ndjson"
            return await api.http.post(path, content=body, headers={"Idempotency-Key": key, "Content-Type": kind})

        came, refused, again = await send(path), await send(other), await send(path)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")
        assert (came.status_code, again.status_code, again.content) == (202, 202, came.content)


async def test_a_gateway_killed_while_it_accepts_makes_one_job_of_each_key(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox, gateway = receiver.inbox(), breakable.gateways[0]
    webhook = {"url": inbox.url}
    accepted: dict[str, Job] = {}

    async def try_once(key: str) -> None:
        try:
            answer = await submit(api, key, webhook=webhook)
        except httpx.TransportError:
            return
        accepted[key] = read(answer, 202, Job)

    every: list[str] = []
    for _ in range(3):
        keys = [str(uuid4()) for _ in range(40)]
        every += keys
        tries = [asyncio.create_task(try_once(key)) for key in keys]
        await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(gateway.kill)
        await asyncio.gather(*tries)
        await asyncio.to_thread(gateway.start)

    jobs = [read(await submit(api, key, webhook=webhook), 202, Job) for key in every]
    assert all(job.id == accepted[key].id for key, job in zip(every, jobs, strict=True) if key in accepted)

    async def all_told() -> bool:
        return len({delivery.id for delivery in inbox.deliveries}) >= len(every)

    await eventually(all_told, "every accepted job's webhook", within=30)
    last = await api.run("echo", INPUTS, webhook=webhook)
    await api.wait_for_webhooks(last.id)
    secret = await api.callback_secret()
    told = {delivery.id: delivery.verify(secret).data.id for delivery in inbox.deliveries}
    assert sorted(told.values()) == sorted([*(job.id for job in jobs), last.id])
