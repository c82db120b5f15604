"""A caller of the infer call waits for its job: not for ever, and the job does not outlive its caller."""

import asyncio

import httpx
import numpy as np
import pytest

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.receiver import Receiver
from tests.acceptance.serving import another_gateway
from tests.acceptance.triton_client import KEY, Server, both, x
from tests.acceptance.waiting import eventually

INFER = "/v2/models/work/infer"


def ask(ms: int) -> dict[str, object]:
    return {"inputs": [{"name": "ms", "shape": [1, 1], "datatype": "INT32", "data": [ms]}]}


async def is_ready(gateway: Service) -> bool:
    """As Triton's client is told."""
    return await Server(gateway.port).call(lambda client: bool(client.is_server_ready()))


async def is_away(gateway: Service) -> bool:
    return not await is_ready(gateway)


async def test_a_job_that_takes_longer_than_the_wait_goes_on(stack: Stack, api: Api) -> None:
    async with (
        another_gateway(stack, CHARONIA_INFER_WAIT="0.5") as hasty,
        httpx.AsyncClient(base_url=hasty.url, headers=KEY, timeout=30) as http,
    ):
        answer = await http.post(INFER, json=ask(2000))
    job_id = answer.headers["x-charonia-job"]
    said = f"{job_id} has not ended within 0.5 s; it goes on: ask for it at /v1/jobs/{job_id}"
    assert (answer.status_code, answer.json()) == (504, {"error": said})
    assert (await api.wait(job_id)).output("slept") == [2000]


async def test_a_gateway_that_stops_says_that_the_job_goes_on(stack: Stack, api: Api) -> None:
    async with (
        another_gateway(stack, CHARONIA_DRAIN="4") as other,
        httpx.AsyncClient(base_url=other.url, headers=KEY, timeout=30) as http,
    ):
        assert await is_ready(other)
        asking = asyncio.create_task(http.post(INFER, json=ask(8000)))
        await wait_for_metric(f"{other.url}/metrics", "charonia_jobs_submitted_total", 1)
        stopping = asyncio.create_task(asyncio.to_thread(other.stop))
        await eventually(lambda: is_away(other), "the gateway says that it is not ready", within=4)
        answer = await asking
        await stopping
    job_id = answer.headers["x-charonia-job"]
    said = f"this gateway is being stopped; {job_id} goes on: ask for it at /v1/jobs/{job_id}"
    assert (answer.status_code, answer.json()) == (503, {"error": said})
    assert answer.headers["retry-after"] == "5"
    assert (await api.wait(job_id)).status == "succeeded"


async def test_the_job_of_a_caller_who_leaves_is_canceled(stack: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    events = ["job.started", "job.canceled"]
    async with api.subscribed(inbox.url, events=events, models=["work"]) as subscription:
        with pytest.raises(httpx.ReadTimeout):
            async with httpx.AsyncClient(base_url=stack.url, headers=KEY) as http:
                await http.post(INFER, json=ask(60_000), timeout=2)
        told = [each.verify(subscription.secret or "") for each in await inbox.wait(2)]
    assert {event.type for event in told} == set(events)
    (job_id,) = {event.data.id for event in told}
    assert (await api.get(job_id)).status == "canceled"


async def test_what_waits_in_the_queue_goes_with_its_caller(breakable: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    await asyncio.to_thread(breakable.dispatchers[0].stop)
    async with api.subscribed(inbox.url, models=["work"]) as subscription:
        with pytest.raises(httpx.ReadTimeout):
            async with httpx.AsyncClient(base_url=breakable.url, headers=KEY) as http:
                await http.post(INFER, json=ask(1), timeout=1)
        (delivery,) = await inbox.wait()
    event = delivery.verify(subscription.secret or "")
    assert (event.type, event.data.attempt) == ("job.canceled", 0)


async def test_who_waits_keeps_no_room_from_others(breakable: Stack) -> None:
    ms = np.zeros(1, np.int32).tobytes()
    head = b'{"inputs":[{"name":"ms","shape":[1,1],"datatype":"INT32","parameters":{"binary_data_size":4}}]}'
    head += b" " * 20_000
    headers = KEY | {"Inference-Header-Content-Length": str(len(head))}
    await asyncio.to_thread(breakable.dispatchers[0].stop)
    async with (
        another_gateway(breakable, CHARONIA_MAX_BODIES="50000") as other,
        httpx.AsyncClient(base_url=other.url, headers=headers, timeout=60) as http,
    ):
        asking = []
        for number in range(1, 6):
            asking.append(asyncio.create_task(http.post(INFER, content=head + ms)))
            await wait_for_metric(f"{other.url}/metrics", "charonia_jobs_submitted_total", number)
        await asyncio.to_thread(breakable.dispatchers[0].start)
        assert [answer.status_code for answer in await asyncio.gather(*asking)] == [200] * 5


async def test_a_call_waits_while_triton_is_away(breakable: Stack) -> None:
    gateway, _ = both(breakable)
    accepted = (f"{breakable.url}/metrics", "charonia_jobs_submitted_total")

    async def look() -> bool:
        return not await gateway.call(lambda client: client.is_model_ready("echo", headers=dict(KEY)))

    await asyncio.to_thread(breakable.triton.kill)
    await eventually(look, "the model is known to be away")
    before = await read_metric(*accepted)
    asking = asyncio.create_task(gateway.infer("echo", [x(1)]))
    await wait_for_metric(*accepted, before + 1)
    assert not asking.done()
    await asyncio.to_thread(breakable.triton.start)
    assert (await asking).as_numpy("y").item() == 2.0
