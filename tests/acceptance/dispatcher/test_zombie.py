"""A dispatcher may freeze for longer than its leases last. Its late results change nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import fault, work
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.telemetry.scraped_metrics import wait_for_metric

RETRY = {"initial_delay": 0}


@pytest.fixture
async def second_dispatcher(breakable: Stack) -> AsyncIterator[Service]:
    """A second dispatcher, which the test starts."""
    port = breakable.dispatchers[0].port + 1
    service = Service("dispatcher", port, breakable.environment, breakable.log_dir, name="dispatcher-2")
    yield service
    await asyncio.to_thread(service.stop)


async def test_dispatcher_frozen_past_its_leases_records_nothing_and_keeps_working(
    breakable: Stack, second_dispatcher: Service, api: Api, receiver: Receiver
) -> None:
    inbox, first = receiver.inbox(), breakable.dispatchers[0]
    short = await api.submit("faulty", fault("hang", 6000), retry=RETRY, webhook={"url": inbox.url})
    await api.wait(short.id, "processing")
    long = await api.submit("work", work(10_000), retry=RETRY, webhook={"url": inbox.url})
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=long.id)
    await asyncio.to_thread(first.freeze)
    try:
        # The broker would do this itself after 20 to 30 s without a heartbeat.
        await asyncio.to_thread(breakable.rabbitmq.ctl, "close_all_connections", "a dispatcher is frozen")
        await asyncio.to_thread(second_dispatcher.start)
        await api.wait(short.id, within=60)
        assert (await api.get(long.id)).status == "processing"
    finally:
        await asyncio.to_thread(first.thaw)
    # One job has ended meanwhile and the other runs elsewhere, so both results are too late.
    await wait_for_metric(f"{first.url}/metrics", "charonia_stale_results_total", 2)
    for job in (short, long):
        ended = await api.wait(job.id, within=60)
        assert (ended.status, ended.attempt, ended.error) == ("succeeded", 1, None)
        lost, won = await api.list_attempts(job.id)
        assert (lost.attempt, lost.status, lost.error_code) == (1, "returned", "worker_lost")
        assert (won.attempt, won.status, won.error_code) == (1, "succeeded", None)
        assert lost.worker != won.worker

    assert await asyncio.to_thread(second_dispatcher.stop) == 0
    later = await api.run("echo", {"x": [[1.0]]}, retry={"max_attempts": 1}, webhook={"url": inbox.url})
    assert [each.worker for each in await api.list_attempts(later.id)] == [lost.worker]
    events = [delivery.verify(await api.callback_secret()) for delivery in await inbox.wait(3)]
    assert [(event.type, event.data.id) for event in events] == [
        ("job.succeeded", job.id) for job in (short, long, later)
    ]
