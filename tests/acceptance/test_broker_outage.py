"""RabbitMQ may go away: what was accepted runs, and what runs is not run twice."""

import asyncio

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import work

SOON = 30.0  # seconds; a lost doorbell would only be rung again after a minute


async def test_a_job_accepted_while_the_broker_is_away_runs_when_it_is_back(breakable: Stack, api: Api) -> None:
    await asyncio.to_thread(breakable.rabbitmq.stop)
    submitted = await api.submit("echo", {"x": [[1.5]]})
    assert (await api.get(submitted.id)).status == "queued"

    await asyncio.to_thread(breakable.rabbitmq.start)
    job = await api.wait(submitted.id, within=SOON)
    assert (job.status, job.attempt, job.output("y")) == ("succeeded", 1, [3.0])


async def test_a_job_that_runs_while_the_broker_dies_runs_once_and_is_told(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    submitted = await api.submit("work", work(1000), webhook={"url": inbox.url})
    executions = breakable.triton.metrics_url, "work_executions_total"
    await wait_for_metric(*executions, 1, request_id=submitted.id)
    await asyncio.to_thread(breakable.rabbitmq.kill)
    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.webhook_status) == ("succeeded", 1, "pending")

    await asyncio.to_thread(breakable.rabbitmq.start)
    (delivery,) = await inbox.wait(within=SOON)
    assert delivery.verify(await api.callback_secret()).data.id == job.id
    assert await read_metric(*executions, request_id=job.id) == 1
