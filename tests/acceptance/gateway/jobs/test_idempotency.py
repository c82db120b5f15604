"""One Idempotency-Key is one job, however often it is submitted and whatever fails meanwhile."""

import asyncio
from uuid import uuid4

import httpx
import msgspec

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, read
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

INPUTS = {"x": [[1.0]]}
ECHO = {"model": "echo", "inputs": INPUTS}


async def submit(api: Api, key: str, **options: object) -> httpx.Response:
    return await api.http.post("/v1/jobs", json=ECHO | options, headers={"Idempotency-Key": key})


async def test_fifty_concurrent_submits_with_one_key_are_one_job_and_one_event(api: Api, receiver: Receiver) -> None:
    inbox, key = receiver.inbox(), str(uuid4())
    responses = await asyncio.gather(*(submit(api, key, webhook={"url": inbox.url}) for _ in range(50)))
    jobs = {response.content for response in responses}
    assert [response.status_code for response in responses] == [202] * 50
    assert len(jobs) == 1
    assert [response.headers.get("idempotency-replayed") for response in responses].count("true") == 49
    job = read(responses[0], 202, Job)
    await api.wait_for_webhooks(job.id)
    later = await submit(api, str(uuid4()), webhook={"url": inbox.url})
    webhooks = [delivery.verify(await api.callback_secret()).data.id for delivery in await inbox.wait(2)]
    assert webhooks == [job.id, read(later, 202, Job).id]


async def test_repeated_submit_gets_the_first_response_even_after_the_job_has_ended(api: Api) -> None:
    key = str(uuid4())
    first = await submit(api, key, metadata={"order": 7})
    await api.wait(read(first, 202, Job).id)
    again = await submit(api, key, metadata={"order": 7})
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")


async def test_same_key_with_another_request_is_refused(api: Api, other_tenant: Api) -> None:
    key = str(uuid4())
    read(await submit(api, key), 202, Job)
    other = await submit(api, key, priority="low")
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")
    assert other.json()["type"] == "urn:charonia:problem:idempotency_key_reused"
    assert "idempotency-replayed" not in (await submit(other_tenant, key)).headers
    bad = await submit(api, "a key")
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")
    assert bad.json()["type"] == "urn:charonia:problem:invalid_request"


async def test_key_belongs_to_a_job_or_a_batch(api: Api) -> None:
    """This holds even if both requests have the same body."""
    body, (first, second) = msgspec.json.encode(ECHO), (str(uuid4()), str(uuid4()))
    for key, path, other in [(first, "/v1/jobs", "/v1/batches"), (second, "/v1/batches", "/v1/jobs")]:

        async def send(path: str, key: str = key) -> httpx.Response:
            kind = "application/json" if path == "/v1/jobs" else "application/x-ndjson"
            return await api.http.post(path, content=body, headers={"Idempotency-Key": key, "Content-Type": kind})

        accepted, refused, again = await send(path), await send(other), await send(path)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")
        assert (accepted.status_code, again.status_code, again.content) == (202, 202, accepted.content)


async def test_each_key_is_one_job_when_the_gateway_is_killed(breakable: Stack, api: Api, receiver: Receiver) -> None:
    inbox, gateway = receiver.inbox(), breakable.gateways[0]
    webhook = {"url": inbox.url}
    accepted: dict[str, Job] = {}

    async def submit_once(key: str) -> None:
        try:
            response = await submit(api, key, webhook=webhook)
        except httpx.TransportError:
            return
        accepted[key] = read(response, 202, Job)

    keys = [str(uuid4()) for _ in range(40)]
    submits = [asyncio.create_task(submit_once(key)) for key in keys]
    await asyncio.wait(submits, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.to_thread(gateway.kill)
    await asyncio.gather(*submits)
    await asyncio.to_thread(gateway.start)

    jobs = [read(await submit(api, key, webhook=webhook), 202, Job) for key in keys]
    assert all(job.id == accepted[key].id for key, job in zip(keys, jobs, strict=True) if key in accepted)

    async def have_all_arrived() -> bool:
        return len({delivery.id for delivery in inbox.deliveries}) >= len(keys)

    await eventually(have_all_arrived, "the webhook of every accepted job arrives")
    last = await api.run("echo", INPUTS, webhook=webhook)
    await api.wait_for_webhooks(last.id)
    secret = await api.callback_secret()
    webhooks = {delivery.id: delivery.verify(secret).data.id for delivery in inbox.deliveries}
    assert sorted(webhooks.values()) == sorted([*(job.id for job in jobs), last.id])
