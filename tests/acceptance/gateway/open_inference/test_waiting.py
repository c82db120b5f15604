"""An infer call waits for its job for a limited time. Its job is canceled when the caller disconnects."""

import asyncio

import httpx
import numpy as np

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, read
from tests.support.api.triton_client import KEY, InferenceServer
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.own_gateway import another_gateway
from tests.support.telemetry.scraped_metrics import wait_for_metric
from tests.support.waiting import eventually

INFER = "/v2/models/work/infer"


def build_request(ms: int) -> dict[str, object]:
    return {"inputs": [{"name": "ms", "shape": [1, 1], "datatype": "INT32", "data": [ms]}]}


async def is_ready(gateway: Service) -> bool:
    """Return whether Triton's client sees the gateway as ready."""
    return await InferenceServer(gateway.port).call(lambda client: bool(client.is_server_ready()))


async def is_not_ready(gateway: Service) -> bool:
    return not await is_ready(gateway)


async def disconnect(call: asyncio.Task[httpx.Response]) -> None:
    """Close the connection of a call that waits."""
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()


async def check_continues(api: Api, job_id: str) -> None:
    """Check that nobody has canceled a long job, and end it."""
    assert (await api.get(job_id)).status in ("queued", "processing")
    read(await api.http.post(f"/v1/jobs/{job_id}/cancel"), 202, Job)
    await api.wait(job_id)


async def test_job_continues_when_the_wait_ends(stack: Stack, api: Api) -> None:
    async with (
        another_gateway(stack, CHARONIA_INFER_WAIT="0.5") as impatient,
        httpx.AsyncClient(base_url=impatient.url, headers=KEY, timeout=30) as http,
    ):
        response = await http.post(INFER, json=build_request(60_000))
    job_id = response.headers["x-charonia-job"]
    message = f"{job_id} did not end within 0.5 s; it continues: get it at /v1/jobs/{job_id}"
    assert (response.status_code, response.json()) == (504, {"error": message})
    await check_continues(api, job_id)


async def test_stopping_gateway_says_that_the_job_continues(stack: Stack, api: Api) -> None:
    async with (
        another_gateway(stack, CHARONIA_SHUTDOWN_DELAY="5") as other,
        httpx.AsyncClient(base_url=other.url, headers=KEY, timeout=30) as http,
    ):
        assert await is_ready(other)
        inferring = asyncio.create_task(http.post(INFER, json=build_request(60_000)))
        await wait_for_metric(f"{other.url}/metrics", "charonia_jobs_submitted_total", 1)
        stopping = asyncio.create_task(asyncio.to_thread(other.stop))
        await eventually(lambda: is_not_ready(other), "the gateway says that it is not ready", within=5)
        response = await inferring
        await stopping
    job_id = response.headers["x-charonia-job"]
    message = f"this gateway is stopping; {job_id} continues: get it at /v1/jobs/{job_id}"
    assert (response.status_code, response.json()) == (503, {"error": message})
    assert response.headers["retry-after"] == "5"
    await check_continues(api, job_id)


async def test_running_job_is_canceled_when_its_caller_disconnects(stack: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    events = ["job.started", "job.canceled"]
    async with api.subscribed(inbox.url, events=events, models=["work"]) as subscription:
        async with httpx.AsyncClient(base_url=stack.url, headers=KEY, timeout=60) as http:
            inferring = asyncio.create_task(http.post(INFER, json=build_request(60_000)))
            await inbox.wait()  # the job has started
            await disconnect(inferring)
        received = [each.verify(subscription.secret or "") for each in await inbox.wait(2)]
    assert {event.type for event in received} == set(events)
    (job_id,) = {event.data.id for event in received}
    assert (await api.get(job_id)).status == "canceled"


async def test_waiting_calls_free_their_body_budget(breakable: Stack) -> None:
    ms = np.zeros(1, np.int32).tobytes()
    head = b'{"inputs":[{"name":"ms","shape":[1,1],"datatype":"INT32","parameters":{"binary_data_size":4}}]}'
    head += b" " * 20_000
    headers = KEY | {"Inference-Header-Content-Length": str(len(head))}
    await asyncio.to_thread(breakable.dispatchers[0].stop)
    async with (
        another_gateway(breakable, CHARONIA_MAX_BODIES_BYTES="50000") as other,
        httpx.AsyncClient(base_url=other.url, headers=headers, timeout=60) as http,
    ):
        inferring = []
        for number in range(1, 6):
            inferring.append(asyncio.create_task(http.post(INFER, content=head + ms)))
            await wait_for_metric(f"{other.url}/metrics", "charonia_jobs_submitted_total", number)
        await asyncio.to_thread(breakable.dispatchers[0].start)
        assert [response.status_code for response in await asyncio.gather(*inferring)] == [200] * 5
